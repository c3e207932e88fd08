#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

struct layernorm {
    size_t rows, width;
    struct tensor input, weight, bias, output, mean, rstd, d_output;
};

static double loss(const void *context)
{
    const struct layernorm *l = context;
    oracle_layernorm(l->output.f64, l->mean.f64, l->rstd.f64, l->input.f64, l->weight.f64,
                     l->bias.f64, l->rows, l->width);
    return weighted_sum(l->output.f64, l->d_output.f64, l->output.count);
}

static struct layernorm layernorm_new(size_t rows, size_t width)
{
    struct layernorm l = {.rows = rows,
                          .width = width,
                          .input = tensor_random(rows * width, 1, 2),
                          .weight = tensor_random(width, 2, 1),
                          .bias = tensor_random(width, 3, 1),
                          .output = tensor_poison(rows * width),
                          .mean = tensor_poison(rows),
                          .rstd = tensor_poison(rows),
                          .d_output = tensor_random(rows * width, 4, 1)};
    for (size_t c = 0; c < width; c++) { /* a row far from zero: the mean must come off first */
        l.input.f32[c] = backend_round(l.input.f32[c] + 100);
        l.input.f64[c] = (double)l.input.f32[c];
    }
    return l;
}

static void layernorm_free(struct layernorm *l)
{
    tensor_free(&l->input);
    tensor_free(&l->weight);
    tensor_free(&l->bias);
    tensor_free(&l->output);
    tensor_free(&l->mean);
    tensor_free(&l->rstd);
    tensor_free(&l->d_output);
}

static void check_backward(const struct backend *backend, struct layernorm *l)
{
    struct tensor d_input = tensor_random(l->rows * l->width, 5, 1);
    struct tensor d_weight = tensor_random(l->width, 6, 1), d_bias = tensor_random(l->width, 7, 1);

    backend->kernel->layernorm_backward(backend->device, d_input.f32, d_weight.f32, d_bias.f32,
                                        l->d_output.f32, l->input.f32, l->weight.f32, l->mean.f32,
                                        l->rstd.f32, l->rows, l->width);
    assert_gradient(loss, l, l->input.f64, d_input.f32, d_input.f64, d_input.count, 7, 1e-4);
    assert_gradient(loss, l, l->weight.f64, d_weight.f32, d_weight.f64, l->width, 3, 1e-4);
    assert_gradient(loss, l, l->bias.f64, d_bias.f32, d_bias.f64, l->width, 3, 1e-5);
    tensor_free(&d_input);
    tensor_free(&d_weight);
    tensor_free(&d_bias);
}

/* With a branch: the bits of adding first and normalizing the sum. */
static void check_branch(const struct backend *backend, const struct layernorm *l)
{
    const struct kernel *k = backend->kernel;
    struct tensor branch = tensor_random(l->input.count, 8, 1);
    struct tensor want_sum = tensor_poison(branch.count), want = tensor_poison(branch.count);
    struct tensor sum = tensor_poison(branch.count), output = tensor_poison(branch.count);
    struct tensor want_mean = tensor_poison(l->rows), mean = tensor_poison(l->rows);
    struct tensor want_rstd = tensor_poison(l->rows), rstd = tensor_poison(l->rows);

    k->residual(backend->device, want_sum.f32, l->input.f32, branch.f32, branch.count);
    k->layernorm_forward(backend->device, want.f32, want_mean.f32, want_rstd.f32, NULL,
                         want_sum.f32, NULL, l->weight.f32, l->bias.f32, l->rows, l->width);
    k->layernorm_forward(backend->device, output.f32, mean.f32, rstd.f32, sum.f32, l->input.f32,
                         branch.f32, l->weight.f32, l->bias.f32, l->rows, l->width);
    assert_same(sum.f32, want_sum.f32, branch.count);
    assert_same(output.f32, want.f32, branch.count);
    assert_same(mean.f32, want_mean.f32, l->rows);
    assert_same(rstd.f32, want_rstd.f32, l->rows);
    tensor_free(&branch);
    tensor_free(&want_sum);
    tensor_free(&want);
    tensor_free(&sum);
    tensor_free(&output);
    tensor_free(&want_mean);
    tensor_free(&mean);
    tensor_free(&want_rstd);
    tensor_free(&rstd);
}

static void check_shape(const struct backend *backend, size_t rows, size_t width)
{
    struct layernorm l = layernorm_new(rows, width);

    backend_case("layernorm, %zu rows of %zu", rows, width);
    backend->kernel->layernorm_forward(backend->device, l.output.f32, l.mean.f32, l.rstd.f32, NULL,
                                       l.input.f32, NULL, l.weight.f32, l.bias.f32, rows, width);
    loss(&l);
    assert_tensor(&l.output, 2e-5);
    assert_tensor(&l.mean, 1e-6);
    assert_tensor(&l.rstd, 2e-6);
    check_backward(backend, &l);
    check_branch(backend, &l);
    layernorm_free(&l);
}

static void check_layernorm(const struct backend *backend)
{
    check_shape(backend, 1, 3);
    check_shape(backend, 19, 45);
    check_shape(backend, 5, 144);
}

static void test_layernorm(void **state)
{
    (void)state;
    backend_each(check_layernorm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layernorm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
