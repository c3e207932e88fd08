#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/backend.h"
#include "parity/gradient.h"
#include "parity/oracle.h"
#include "parity/tensor.h"

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

/* Large deviations make the highest score move from tile to tile. */
static void check_shape(const struct backend *backend, struct kernel_attention shape,
                        float deviation, size_t every)
{
    size_t rows = shape.batch * shape.context;
    struct attention a = {.shape = shape,
                          .qkv = tensor_random(rows * 3 * shape.width, 1, deviation),
                          .output = tensor_poison(rows * shape.width),
                          .log_sum = tensor_poison(shape.heads * rows),
                          .d_output = tensor_random(rows * shape.width, 2, 1)};
    struct tensor d_qkv = tensor_poison(a.qkv.count);

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
    check_shape(backend, (struct kernel_attention){1, 1, 4, 1}, 1, 1);
    check_shape(backend, (struct kernel_attention){2, 7, 12, 3}, 1, 1);
    check_shape(backend, (struct kernel_attention){1, 20, 40, 2}, 2, 17);
}

/* Several tiles of queries and of keys, the last of each incomplete. */
static void check_tiles(const struct backend *backend)
{
    check_shape(backend, (struct kernel_attention){1, 333, 8, 1}, 2, 1009);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
