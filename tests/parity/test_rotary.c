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

#define THETA 100.0 /* so that every pair turns visibly within a few positions */

struct rotary {
    struct kernel_attention shape;
    struct tensor qkv, turned, d_turned;
};

static double loss(const void *context)
{
    const struct rotary *r = context;
    oracle_rotary(r->turned.f64, r->qkv.f64, THETA, r->shape);
    return weighted_sum(r->turned.f64, r->d_turned.f64, r->turned.count);
}

static float *angles_of(struct kernel_attention shape)
{
    size_t depth = shape.width / shape.heads;
    float *angles = malloc(shape.context * depth * sizeof(float));
    assert_non_null(angles);
    for (size_t t = 0; t < shape.context; t++)
        for (size_t c = 0; c < depth / 2; c++) {
            double angle = (double)t * pow(THETA, -2.0 * (double)c / (double)depth);
            angles[t * depth + c] = (float)cos(angle);
            angles[t * depth + depth / 2 + c] = (float)sin(angle);
        }
    return angles;
}

static void check_shape(const struct backend *backend, struct kernel_attention shape, size_t every)
{
    size_t all = shape.heads + 2 * shape.kv_heads;
    size_t count = shape.batch * shape.context * all * (shape.width / shape.heads);
    struct rotary r = {.shape = shape,
                       .qkv = tensor_random(count, 1, 1),
                       .turned = tensor_poison(count),
                       .d_turned = tensor_random(count, 2, 1)};
    struct tensor d_qkv = tensor_random(count, 2, 1); /* in place: begins as d_turned */
    float *angles = angles_of(shape);

    backend_case("rotary, %zu samples of %zu, width %zu, %zu heads, %zu of keys", shape.batch,
                 shape.context, shape.width, shape.heads, shape.kv_heads);
    memcpy(r.turned.f32, r.qkv.f32, count * sizeof(float));
    backend->kernel->rotary_forward(backend->device, r.turned.f32, angles, shape);
    loss(&r);
    assert_tensor(&r.turned, 1e-6);
    backend->kernel->rotary_backward(backend->device, d_qkv.f32, angles, shape);
    assert_gradient(loss, &r, r.qkv.f64, d_qkv.f32, NULL, count, every, 1e-6);
    tensor_free(&r.qkv);
    tensor_free(&r.turned);
    tensor_free(&r.d_turned);
    tensor_free(&d_qkv);
    free(angles);
}

/* Halves of a head that are packs of a GPU and halves that are not; fewer heads of keys. */
static void check_rotary(const struct backend *backend)
{
    check_shape(backend, (struct kernel_attention){1, 2, 2, 1, 1}, 1);
    check_shape(backend, (struct kernel_attention){2, 7, 24, 4, 2}, 3);
    check_shape(backend, (struct kernel_attention){2, 5, 80, 2, 1}, 37);
    check_shape(backend, (struct kernel_attention){2, 9, 128, 4, 2}, 101);
}

static void test_rotary(void **state)
{
    (void)state;
    backend_each(check_rotary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rotary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
