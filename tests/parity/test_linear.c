#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

struct linear {
    struct kernel_linear shape;
    struct tensor input, weight, bias, output, d_output;
};

static double loss(const void *context)
{
    const struct linear *l = context;
    oracle_linear(l->output.f64, l->input.f64, l->weight.f64, l->bias.f64, l->shape);
    return weighted_sum(l->output.f64, l->d_output.f64, l->output.count);
}

static void check_forward(const struct backend *backend, struct linear *l)
{
    const struct kernel *k = backend->kernel;

    k->linear_forward(backend->device, l->output.f32, l->input.f32, l->weight.f32, l->bias.f32,
                      l->shape);
    oracle_linear(l->output.f64, l->input.f64, l->weight.f64, l->bias.f64, l->shape);
    assert_tensor(&l->output, 1e-5);

    struct tensor plain = tensor_poison(l->output.count);
    k->linear_forward(backend->device, plain.f32, l->input.f32, l->weight.f32, NULL, l->shape);
    oracle_linear(plain.f64, l->input.f64, l->weight.f64, NULL, l->shape);
    assert_tensor(&plain, 1e-5);
    tensor_free(&plain);
}

static void check_backward(const struct backend *backend, struct linear *l, size_t every)
{
    const struct kernel *k = backend->kernel;
    struct tensor d_input = tensor_poison(l->input.count);
    struct tensor d_weight = tensor_random(l->weight.count, 5, 1);
    struct tensor d_bias = tensor_random(l->bias.count, 6, 1);

    k->linear_backward(backend->device, d_input.f32, d_weight.f32, d_bias.f32, l->d_output.f32,
                       l->input.f32, l->weight.f32, l->shape);
    assert_gradient(loss, l, l->input.f64, d_input.f32, NULL, d_input.count, every, 1e-5);
    assert_gradient(loss, l, l->weight.f64, d_weight.f32, d_weight.f64, d_weight.count, every,
                    1e-5);
    assert_gradient(loss, l, l->bias.f64, d_bias.f32, d_bias.f64, d_bias.count, every > 1 ? 53 : 1,
                    1e-5);

    /* Unwanted results are left alone, and the wanted results are the same without them. */
    struct tensor again = tensor_random(l->weight.count, 5, 1);
    k->linear_backward(backend->device, NULL, again.f32, NULL, l->d_output.f32, l->input.f32,
                       l->weight.f32, l->shape);
    assert_same(again.f32, d_weight.f32, again.count);
    tensor_free(&again);
    tensor_free(&d_input);
    tensor_free(&d_weight);
    tensor_free(&d_bias);
}

static void name_case(const char *what, struct kernel_linear shape)
{
    backend_case("%s, %zu rows of %zu -> %zu (%s), %zu apart", what, shape.rows, shape.in,
                 shape.out, shape.layout == KERNEL_WEIGHT_IN_OUT ? "in, out" : "out, in",
                 kernel_linear_stride(&shape));
}

static void check_shape(const struct backend *backend, struct kernel_linear shape, size_t every)
{
    struct linear l = {.shape = shape,
                       .input = tensor_random(shape.rows * shape.in, 1, 1),
                       .weight = tensor_random(shape.in * shape.out, 2, 0.2f),
                       .bias = tensor_random(shape.out, 3, 1),
                       .output = tensor_poison(shape.rows * shape.out),
                       .d_output = tensor_random(shape.rows * shape.out, 4, 0.2f)};
    name_case("linear", shape);
    check_forward(backend, &l);
    check_backward(backend, &l, every);
    tensor_free(&l.input);
    tensor_free(&l.weight);
    tensor_free(&l.bias);
    tensor_free(&l.output);
    tensor_free(&l.d_output);
}

/* Copy the rows of @from to the rows of @to, @stride apart; the gaps between them keep their
 * content. */
static void spread_rows(float *to, const float *from, size_t rows, size_t width, size_t stride)
{
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * stride, from + row * width, width * sizeof(float));
}

/* The bits of rows that are not apart. A library may take another algorithm for another stride, of
 * which a job has one: there they are near. */
static void assert_as_together(const struct backend *backend, const char *name, const float *actual,
                               const float *expected, size_t count)
{
    if (backend->kernel->host_memory || backend_emulated()) {
        assert_same_as(name, actual, expected, count);
        return;
    }
    struct tensor want = tensor_poison(count);
    for (size_t i = 0; i < count; i++)
        want.f64[i] = (double)expected[i];
    assert_near_as(name, actual, want.f64, count, 1e-5);
    tensor_free(&want);
}

static void assert_spread(const struct backend *backend, const float *spread, const float *rows_of,
                          size_t rows, size_t width, size_t stride)
{
    struct tensor gathered = tensor_poison(rows * width);
    for (size_t row = 0; row < rows; row++) {
        memcpy(gathered.f32 + row * width, spread + row * stride, width * sizeof(float));
        for (size_t column = width; column < stride; column++)
            if (!isnan(spread[row * stride + column]))
                backend_fail("row %zu: what lies between rows was written, at column %zu", row,
                             column);
    }
    assert_as_together(backend, "rows that are apart", gathered.f32, rows_of, rows * width);
    tensor_free(&gathered);
}

/* Rows with gaps give the results of rows without gaps, and the NaN in the gaps stays. */
static void check_stride(const struct backend *backend, struct kernel_linear shape, size_t stride)
{
    const struct kernel *k = backend->kernel;
    size_t rows = shape.rows, weights = shape.in * shape.out;
    struct kernel_linear apart = shape;
    struct tensor input = tensor_random(rows * shape.in, 1, 1);
    struct tensor weight = tensor_random(weights, 2, 0.2f), bias = tensor_random(shape.out, 3, 1);
    struct tensor output = tensor_poison(rows * shape.out), spread = tensor_poison(rows * stride);
    struct tensor d_input[2] = {tensor_poison(rows * shape.in), tensor_poison(rows * shape.in)};
    struct tensor d_weight[2] = {tensor_random(weights, 5, 1), tensor_random(weights, 5, 1)};
    struct tensor d_bias[2] = {tensor_random(shape.out, 6, 1), tensor_random(shape.out, 6, 1)};

    apart.out_stride = stride;
    name_case("rows apart", apart);
    for (unsigned with_bias = 0; with_bias < 2; with_bias++) {
        const float *b = with_bias ? bias.f32 : NULL;
        k->linear_forward(backend->device, output.f32, input.f32, weight.f32, b, shape);
        k->linear_forward(backend->device, spread.f32, input.f32, weight.f32, b, apart);
        assert_spread(backend, spread.f32, output.f32, rows, shape.out, stride);
    }
    spread_rows(spread.f32, output.f32, rows, shape.out, stride);
    k->linear_backward(backend->device, d_input[0].f32, d_weight[0].f32, d_bias[0].f32, output.f32,
                       input.f32, weight.f32, shape);
    k->linear_backward(backend->device, d_input[1].f32, d_weight[1].f32, d_bias[1].f32, spread.f32,
                       input.f32, weight.f32, apart);
    assert_as_together(backend, "d_input", d_input[1].f32, d_input[0].f32, d_input[0].count);
    assert_as_together(backend, "d_weight", d_weight[1].f32, d_weight[0].f32, d_weight[0].count);
    assert_same(d_bias[1].f32, d_bias[0].f32, d_bias[0].count);
    tensor_free(&input);
    tensor_free(&weight);
    tensor_free(&bias);
    tensor_free(&output);
    tensor_free(&spread);
    for (unsigned i = 0; i < 2; i++) {
        tensor_free(&d_input[i]);
        tensor_free(&d_weight[i]);
        tensor_free(&d_bias[i]);
    }
}

/* The fused product and GELU give the results of the separate operations. */
static void check_gelu(const struct backend *backend, struct kernel_linear shape)
{
    const struct kernel *k = backend->kernel;
    size_t count = shape.rows * shape.out;
    struct tensor input = tensor_random(shape.rows * shape.in, 1, 1);
    struct tensor weight = tensor_random(shape.in * shape.out, 2, 0.2f);
    struct tensor bias = tensor_random(shape.out, 3, 1);
    struct tensor before = tensor_poison(count), output = tensor_poison(count);

    name_case("linear and GELU", shape);
    k->linear_gelu_forward(backend->device, output.f32, before.f32, input.f32, weight.f32, bias.f32,
                           shape);
    oracle_linear(before.f64, input.f64, weight.f64, bias.f64, shape);
    oracle_gelu(output.f64, before.f64, count);
    assert_tensor(&before, 1e-5);
    assert_tensor(&output, 1e-5);
    tensor_free(&input);
    tensor_free(&weight);
    tensor_free(&bias);
    tensor_free(&before);
    tensor_free(&output);
}

/* The same through GELU: its input is the result that a change affects. */
struct gelu_linear {
    struct kernel_linear shape;
    struct tensor before, input, weight, d_output, output;
};

static double gelu_loss(const void *context)
{
    const struct gelu_linear *l = context;
    oracle_gelu(l->input.f64, l->before.f64, l->input.count);
    oracle_linear(l->output.f64, l->input.f64, l->weight.f64, NULL, l->shape);
    return weighted_sum(l->output.f64, l->d_output.f64, l->output.count);
}

static void check_gelu_backward(const struct backend *backend, struct kernel_linear shape)
{
    const struct kernel *k = backend->kernel;
    size_t inputs = shape.rows * shape.in, weights = shape.in * shape.out;
    struct gelu_linear l = {.shape = shape,
                            .before = tensor_random(inputs, 1, 1),
                            .input = tensor_random(inputs, 2, 1),
                            .weight = tensor_random(weights, 3, 0.2f),
                            .d_output = tensor_random(shape.rows * shape.out, 4, 0.2f),
                            .output = tensor_poison(shape.rows * shape.out)};
    struct tensor d_before = tensor_poison(inputs);
    struct tensor d_weight[2] = {tensor_random(weights, 5, 1), tensor_random(weights, 5, 1)};
    struct tensor d_bias[2] = {tensor_random(shape.out, 6, 1), tensor_random(shape.out, 6, 1)};

    name_case("backward through GELU", shape);
    k->linear_backward(backend->device, NULL, d_weight[0].f32, d_bias[0].f32, l.d_output.f32,
                       l.input.f32, l.weight.f32, shape);
    k->linear_gelu_backward(backend->device, d_before.f32, d_weight[1].f32, d_bias[1].f32,
                            l.d_output.f32, l.input.f32, l.before.f32, l.weight.f32, shape);
    assert_same(d_weight[1].f32, d_weight[0].f32, weights);
    assert_same(d_bias[1].f32, d_bias[0].f32, shape.out);
    assert_gradient(gelu_loss, &l, l.before.f64, d_before.f32, NULL, inputs, 1, 1e-5);
    tensor_free(&l.before);
    tensor_free(&l.input);
    tensor_free(&l.weight);
    tensor_free(&l.d_output);
    tensor_free(&l.output);
    tensor_free(&d_before);
    for (unsigned i = 0; i < 2; i++) {
        tensor_free(&d_weight[i]);
        tensor_free(&d_bias[i]);
    }
}

static void check_linear(const struct backend *backend)
{
    check_shape(backend, (struct kernel_linear){5, 7, 9, KERNEL_WEIGHT_IN_OUT, 0}, 1);
    check_shape(backend, (struct kernel_linear){5, 7, 9, KERNEL_WEIGHT_OUT_IN, 0}, 1);
    check_shape(backend, (struct kernel_linear){33, 140, 270, KERNEL_WEIGHT_IN_OUT, 0}, 5003);
    check_shape(backend, (struct kernel_linear){33, 140, 270, KERNEL_WEIGHT_OUT_IN, 0}, 5003);
    check_shape(backend, (struct kernel_linear){300, 20, 17, KERNEL_WEIGHT_IN_OUT, 0}, 311);
    check_gelu(backend, (struct kernel_linear){21, 12, 48, KERNEL_WEIGHT_IN_OUT, 0});
    check_gelu(backend, (struct kernel_linear){21, 12, 13, KERNEL_WEIGHT_OUT_IN, 0});
    check_gelu_backward(backend, (struct kernel_linear){21, 48, 12, KERNEL_WEIGHT_IN_OUT, 0});
    check_gelu_backward(backend, (struct kernel_linear){21, 13, 12, KERNEL_WEIGHT_OUT_IN, 0});
}

static void check_strides(const struct backend *backend)
{
    check_stride(backend, (struct kernel_linear){5, 7, 9, KERNEL_WEIGHT_IN_OUT, 0}, 16);
    check_stride(backend, (struct kernel_linear){33, 20, 37, KERNEL_WEIGHT_OUT_IN, 0}, 64);
    check_stride(backend, (struct kernel_linear){150, 6, 13, KERNEL_WEIGHT_OUT_IN, 0}, 15);
    check_stride(backend, (struct kernel_linear){2, 3, 50257, KERNEL_WEIGHT_OUT_IN, 0}, 50304);
}

/* A small weight and many rows: a library that divides the sum over the rows must add the parts in
 * one order. */
static void check_twice(const struct backend *backend)
{
    const struct kernel_linear shape = {2048, 32, 24, KERNEL_WEIGHT_IN_OUT, 0};
    const struct kernel *k = backend->kernel;
    struct tensor input = tensor_random(shape.rows * shape.in, 1, 1);
    struct tensor weight = tensor_random(shape.in * shape.out, 2, 1);
    struct tensor d_output = tensor_random(shape.rows * shape.out, 4, 1);
    struct tensor first = tensor_random(weight.count, 5, 1);

    struct tensor begun = tensor_random(weight.count, 5, 1);

    name_case("the same twice", shape);
    k->linear_backward(backend->device, NULL, first.f32, NULL, d_output.f32, input.f32, weight.f32,
                       shape);
    for (unsigned round = 0; round < 4; round++) {
        struct tensor again = tensor_random(weight.count, 5, 1);
        k->linear_backward(backend->device, NULL, again.f32, NULL, d_output.f32, input.f32,
                           weight.f32, shape);
        assert_same(again.f32, first.f32, again.count);
        tensor_free(&again);
    }
    assert_memory_not_equal(begun.f32, first.f32, first.count * sizeof(float));
    tensor_free(&begun);
    tensor_free(&first);
    tensor_free(&d_output);
    tensor_free(&weight);
    tensor_free(&input);
}

static void test_linear(void **state)
{
    (void)state;
    backend_each_product(check_linear);
}

static void test_rows_apart(void **state)
{
    (void)state;
    backend_each(check_strides);
}

static void test_the_same_bits_twice(void **state)
{
    (void)state;
    backend_each(check_twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_rows_apart),
                                       cmocka_unit_test(test_the_same_bits_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
