#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

#define EPSILON 1e-3f /* large enough to matter */

struct rmsnorm {
    size_t rows, width;
    struct tensor input, weight, output, rstd, d_output;
};

static double loss(const void *context)
{
    const struct rmsnorm *r = context;
    oracle_rmsnorm(r->output.f64, r->rstd.f64, r->input.f64, r->weight.f64, (double)EPSILON,
                   r->rows, r->width);
    return weighted_sum(r->output.f64, r->d_output.f64, r->output.count);
}

static struct rmsnorm rmsnorm_new(size_t rows, size_t width)
{
    return (struct rmsnorm){.rows = rows,
                            .width = width,
                            .input = tensor_random(rows * width, 1, 0.2f),
                            .weight = tensor_random(width, 2, 1),
                            .output = tensor_poison(rows * width),
                            .rstd = tensor_poison(rows),
                            .d_output = tensor_random(rows * width, 4, 1)};
}

static void rmsnorm_free(struct rmsnorm *r)
{
    tensor_free(&r->input);
    tensor_free(&r->weight);
    tensor_free(&r->output);
    tensor_free(&r->rstd);
    tensor_free(&r->d_output);
}

static void check_backward(const struct backend *backend, struct rmsnorm *r, size_t every)
{
    struct tensor d_input = tensor_random(r->rows * r->width, 5, 1);
    struct tensor d_weight = tensor_random(r->width, 6, 1);

    backend->kernel->rmsnorm_backward(backend->device, d_input.f32, d_weight.f32, r->d_output.f32,
                                      r->input.f32, r->weight.f32, r->rstd.f32, r->rows, r->width);
    assert_gradient(loss, r, r->input.f64, d_input.f32, d_input.f64, d_input.count, every, 1e-4);
    assert_gradient(loss, r, r->weight.f64, d_weight.f32, d_weight.f64, r->width, every, 1e-4);
    tensor_free(&d_input);
    tensor_free(&d_weight);
}

/* With a branch: the bits of adding first and normalizing the sum. */
static void check_branch(const struct backend *backend, const struct rmsnorm *r)
{
    const struct kernel *k = backend->kernel;
    struct tensor branch = tensor_random(r->input.count, 7, 1);
    struct tensor want_sum = tensor_poison(branch.count), want = tensor_poison(branch.count);
    struct tensor sum = tensor_poison(branch.count), output = tensor_poison(branch.count);
    struct tensor want_rstd = tensor_poison(r->rows), rstd = tensor_poison(r->rows);

    k->residual(backend->device, want_sum.f32, r->input.f32, branch.f32, branch.count);
    k->rmsnorm_forward(backend->device, want.f32, want_rstd.f32, NULL, want_sum.f32, NULL,
                       r->weight.f32, EPSILON, r->rows, r->width);
    k->rmsnorm_forward(backend->device, output.f32, rstd.f32, sum.f32, r->input.f32, branch.f32,
                       r->weight.f32, EPSILON, r->rows, r->width);
    assert_same(sum.f32, want_sum.f32, branch.count);
    assert_same(output.f32, want.f32, branch.count);
    assert_same(rstd.f32, want_rstd.f32, r->rows);
    tensor_free(&branch);
    tensor_free(&want_sum);
    tensor_free(&want);
    tensor_free(&sum);
    tensor_free(&output);
    tensor_free(&want_rstd);
    tensor_free(&rstd);
}

static void check_shape(const struct backend *backend, size_t rows, size_t width, size_t every)
{
    struct rmsnorm r = rmsnorm_new(rows, width);

    backend_case("rmsnorm, %zu rows of %zu", rows, width);
    backend->kernel->rmsnorm_forward(backend->device, r.output.f32, r.rstd.f32, NULL, r.input.f32,
                                     NULL, r.weight.f32, EPSILON, rows, width);
    loss(&r);
    assert_tensor(&r.output, 2e-6);
    assert_tensor(&r.rstd, 2e-6);
    check_backward(backend, &r, every);
    check_branch(backend, &r);
    rmsnorm_free(&r);
}

static void check_rmsnorm(const struct backend *backend)
{
    check_shape(backend, 1, 3, 1);
    check_shape(backend, 19, 45, 7);
    check_shape(backend, 70, 144, 101);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    backend_each(check_rmsnorm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rmsnorm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
