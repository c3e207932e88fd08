#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

struct attention {
    struct kernel_attention shape;
    struct tensor qkv, output, log_sum, d_output;
};

static double loss(const void *context)
{
    const struct attention *a = context;
    oracle_attention(a->output.f64, NULL, a->qkv.f64, a->shape);
    return weighted_sum(a->output.f64, a->d_output.f64, a->output.count);
}

static size_t qkv_count(struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads;
    return shape.batch * shape.context * (shape.width + 2 * shape.kv_heads * depth);
}

static void name_case(struct kernel_attention shape)
{
    backend_case("attention, %zu samples of %zu, width %zu, %zu heads, %zu of keys", shape.batch,
                 shape.context, shape.width, shape.heads, shape.kv_heads);
}

/* Large deviations make the highest score move from tile to tile. */
static void check_shape(const struct backend *backend, struct kernel_attention shape,
                        float deviation, size_t every)
{
    size_t rows = shape.batch * shape.context;
    struct attention a = {.shape = shape,
                          .qkv = tensor_random(qkv_count(shape), 1, deviation),
                          .output = tensor_poison(rows * shape.width),
                          .log_sum = tensor_poison(shape.heads * rows),
                          .d_output = tensor_random(rows * shape.width, 2, 1)};
    struct tensor d_qkv = tensor_poison(a.qkv.count);

    name_case(shape);
    backend->kernel->attention_forward(backend->device, a.output.f32, a.log_sum.f32, a.qkv.f32,
                                       shape);
    oracle_attention(a.output.f64, a.log_sum.f64, a.qkv.f64, shape);
    assert_tensor(&a.output, 2e-5);
    assert_tensor(&a.log_sum, 2e-6);

    backend->kernel->attention_backward(backend->device, d_qkv.f32, a.d_output.f32, a.output.f32,
                                        a.log_sum.f32, a.qkv.f32, shape);
    assert_gradient(loss, &a, a.qkv.f64, d_qkv.f32, NULL, d_qkv.count, every, 1e-4);
    tensor_free(&a.qkv);
    tensor_free(&a.output);
    tensor_free(&a.log_sum);
    tensor_free(&a.d_output);
    tensor_free(&d_qkv);
}

static void check_small(const struct backend *backend)
{
    check_shape(backend, (struct kernel_attention){1, 1, 4, 1, 1}, 1, 1);
    check_shape(backend, (struct kernel_attention){2, 7, 12, 3, 3}, 1, 1);
    check_shape(backend, (struct kernel_attention){1, 20, 40, 2, 2}, 2, 17);
    check_shape(backend, (struct kernel_attention){2, 7, 12, 6, 2}, 1, 1);
    check_shape(backend, (struct kernel_attention){1, 37, 20, 4, 1}, 1, 29);
}

/* Several tiles of queries and of keys, the last of each incomplete. */
static void check_tiles(const struct backend *backend)
{
    check_shape(backend, (struct kernel_attention){1, 333, 8, 1, 1}, 2, 1009);
}

/* Every element against the CPU's, which the finite differences above hold to the oracle. */
static void check_against_cpu(const struct backend *backend, struct kernel_attention shape)
{
    const struct kernel_options options = {.thread_count = 2};
    const struct kernel *cpu = kernel_cpu();
    struct kernel_device *device;
    size_t rows = shape.batch * shape.context, count = rows * shape.width;
    struct tensor qkv = tensor_random(qkv_count(shape), 1, 1),
                  d_output = tensor_random(count, 2, 1);
    struct tensor want = tensor_poison(count), output = tensor_poison(count);
    struct tensor want_sum = tensor_poison(shape.heads * rows),
                  log_sum = tensor_poison(want_sum.count);
    struct tensor want_d = tensor_poison(qkv.count), d_qkv = tensor_poison(qkv.count);

    name_case(shape);
    assert_int_equal(cpu->open(&options, &device, NULL), 0);
    cpu->attention_forward(device, want.f32, want_sum.f32, qkv.f32, shape);
    cpu->attention_backward(device, want_d.f32, d_output.f32, want.f32, want_sum.f32, qkv.f32,
                            shape);
    cpu->close(device);
    backend->kernel->attention_forward(backend->device, output.f32, log_sum.f32, qkv.f32, shape);
    backend->kernel->attention_backward(backend->device, d_qkv.f32, d_output.f32, output.f32,
                                        log_sum.f32, qkv.f32, shape);
    tensor_expect(&output, &want);
    tensor_expect(&log_sum, &want_sum);
    tensor_expect(&d_qkv, &want_d);
    assert_tensor(&output, 1e-5);
    assert_tensor(&log_sum, 1e-6);
    assert_tensor(&d_qkv, 1e-5);
    tensor_free(&qkv);
    tensor_free(&d_output);
    tensor_free(&want);
    tensor_free(&output);
    tensor_free(&want_sum);
    tensor_free(&log_sum);
    tensor_free(&want_d);
    tensor_free(&d_qkv);
}

/* Heads of 64 and 128 columns, which a GPU gives to its matrix instructions, and others beside
   them: samples, heads and tiles of which the last is incomplete. */
static void check_matrix_heads(const struct backend *backend)
{
    if (backend->kernel->host_memory)
        return;
    check_against_cpu(backend, (struct kernel_attention){2, 70, 128, 2, 2});
    check_against_cpu(backend, (struct kernel_attention){1, 131, 128, 1, 1});
    check_against_cpu(backend, (struct kernel_attention){1, 40, 288, 3, 3});
    check_against_cpu(backend, (struct kernel_attention){2, 70, 256, 4, 2});
    check_against_cpu(backend, (struct kernel_attention){1, 67, 256, 2, 1});
    check_against_cpu(backend, (struct kernel_attention){1, 33, 200, 1, 1});
}

/* The kernels that a GPU chooses for a stage, cuDNN's or our own, on whole and on broken tiles. */
static void check_chosen(const struct backend *backend)
{
    static const struct kernel_attention shapes[] = {
        {4, 64, 768, 12, 12}, {2, 300, 128, 2, 2}, {2, 128, 512, 4, 2}, {1, 1024, 64, 1, 1}};
    char text[4096];

    if (backend->kernel->host_memory || backend_emulated()) /* test_attention_cudnn.c */
        return;
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        assert_int_equal(backend->kernel->attention_prepare(backend->device, shapes[i]), 0);
        check_against_cpu(backend, shapes[i]);
    }
    backend->kernel->describe(backend->device, text, sizeof(text));
    print_message("%s\n", text);
}

static void test_small(void **state)
{
    (void)state;
    backend_each(check_small);
}

static void test_tiles(void **state)
{
    (void)state;
    backend_each(check_tiles);
}

static void test_matrix_heads(void **state)
{
    (void)state;
    backend_each(check_matrix_heads);
}

static void test_chosen(void **state)
{
    (void)state;
    backend_each(check_chosen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_matrix_heads),
        cmocka_unit_test(test_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
