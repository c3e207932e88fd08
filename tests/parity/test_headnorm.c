#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

#define EPSILON 1e-3f /* large enough to matter */

struct headnorm {
    struct kernel_attention shape;
    struct tensor qkv, q_weight, k_weight, output, rstd, d_output;
};

/* Each head is a row of its own RMS norm. */
static double loss(const void *context)
{
    const struct headnorm *h = context;
    size_t depth = h->shape.width / h->shape.heads, norms = h->shape.heads + h->shape.kv_heads;
    size_t all = norms + h->shape.kv_heads;

    for (size_t row = 0; row < h->shape.batch * h->shape.context; row++) {
        const double *in = h->qkv.f64 + row * all * depth;
        double *out = h->output.f64 + row * all * depth, *rstd = h->rstd.f64 + row * norms;
        oracle_rmsnorm(out, rstd, in, h->q_weight.f64, (double)EPSILON, h->shape.heads, depth);
        oracle_rmsnorm(out + h->shape.width, rstd + h->shape.heads, in + h->shape.width,
                       h->k_weight.f64, (double)EPSILON, h->shape.kv_heads, depth);
        memcpy(out + norms * depth, in + norms * depth, h->shape.kv_heads * depth * sizeof(double));
    }
    return weighted_sum(h->output.f64, h->d_output.f64, h->output.count);
}

static void check_backward(const struct backend *backend, struct headnorm *h, size_t every)
{
    size_t depth = h->shape.width / h->shape.heads;
    struct tensor d_qkv = tensor_random(h->qkv.count, 4, 1); /* in place: begins as d_output */
    struct tensor d_q = tensor_random(depth, 5, 1), d_k = tensor_random(depth, 6, 1);

    backend->kernel->headnorm_backward(backend->device, d_qkv.f32, d_q.f32, d_k.f32, h->qkv.f32,
                                       h->q_weight.f32, h->k_weight.f32, h->rstd.f32, h->shape);
    assert_gradient(loss, h, h->qkv.f64, d_qkv.f32, NULL, d_qkv.count, every, 1e-4);
    assert_gradient(loss, h, h->q_weight.f64, d_q.f32, d_q.f64, depth, every, 1e-4);
    assert_gradient(loss, h, h->k_weight.f64, d_k.f32, d_k.f64, depth, every, 1e-4);
    tensor_free(&d_qkv);
    tensor_free(&d_q);
    tensor_free(&d_k);
}

static void check_shape(const struct backend *backend, struct kernel_attention shape, size_t every)
{
    size_t depth = shape.width / shape.heads, rows = shape.batch * shape.context;
    size_t norms = rows * (shape.heads + shape.kv_heads);
    size_t count = (norms + rows * shape.kv_heads) * depth;
    struct headnorm h = {.shape = shape,
                         .qkv = tensor_random(count, 1, 0.2f),
                         .q_weight = tensor_random(depth, 2, 1),
                         .k_weight = tensor_random(depth, 3, 1),
                         .output = tensor_poison(count),
                         .rstd = tensor_poison(norms),
                         .d_output = tensor_random(count, 4, 1)};

    backend->kernel->headnorm_forward(backend->device, h.output.f32, h.rstd.f32, h.qkv.f32,
                                      h.q_weight.f32, h.k_weight.f32, EPSILON, shape);
    loss(&h);
    assert_tensor(&h.output, 2e-6);
    assert_tensor(&h.rstd, 2e-6);
    check_backward(backend, &h, every);
    tensor_free(&h.qkv);
    tensor_free(&h.q_weight);
    tensor_free(&h.k_weight);
    tensor_free(&h.output);
    tensor_free(&h.rstd);
    tensor_free(&h.d_output);
}

/* Heads that are packs of a GPU and heads that are not, wider than a warp; fewer heads of keys. */
static void check_headnorm(const struct backend *backend)
{
    check_shape(backend, (struct kernel_attention){1, 2, 2, 1, 1}, 1);
    check_shape(backend, (struct kernel_attention){2, 7, 24, 4, 2}, 3);
    check_shape(backend, (struct kernel_attention){1, 70, 64, 2, 1}, 101);
    check_shape(backend, (struct kernel_attention){2, 5, 560, 2, 1}, 37);
}

static void test_headnorm(void **state)
{
    (void)state;
    backend_each(check_headnorm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_headnorm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
