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

struct entropy {
    size_t rows, vocab, stride;
    const int32_t *targets;
    float scale;
    struct tensor logits, losses;
};

/* Logits whose rows are @stride apart, with NaN between them. */
static struct tensor spread_logits(const struct entropy *e)
{
    struct tensor spread = tensor_poison(e->rows * e->stride);
    for (size_t row = 0; row < e->rows; row++)
        memcpy(spread.f32 + row * e->stride, e->logits.f32 + row * e->vocab,
               e->vocab * sizeof(float));
    return spread;
}

/* Rows with gaps give the results of adjacent rows; the NaN in the gaps stays. */
static void check_apart(const struct backend *backend, const struct entropy *e,
                        struct tensor *spread)
{
    struct tensor losses = tensor_poison(e->rows);

    backend->kernel->cross_entropy_fused(backend->device, losses.f32, spread->f32, e->targets,
                                         e->scale, e->rows, e->vocab, e->stride);
    assert_same(losses.f32, e->losses.f32, e->rows);
    for (size_t row = 0; row < e->rows; row++) {
        const float *gradient = spread->f32 + row * e->stride;
        assert_same(gradient, e->logits.f32 + row * e->vocab, e->vocab);
        for (size_t column = e->vocab; column < e->stride; column++)
            if (!isnan(gradient[column]))
                backend_fail("row %zu: what lies between rows was written, at column %zu", row,
                             column);
    }
    tensor_free(&losses);
}

static double loss(const void *context)
{
    const struct entropy *e = context;
    double sum = 0;
    oracle_cross_entropy(e->losses.f64, e->logits.f64, e->targets, e->rows, e->vocab);
    for (size_t n = 0; n < e->rows; n++)
        sum += e->losses.f64[n] * (double)e->scale;
    return sum;
}

static void check_shape(const struct backend *backend, size_t rows, size_t vocab, size_t stride,
                        float deviation, size_t every)
{
    const struct kernel *k = backend->kernel;
    int32_t *targets = tokens_random(rows, 1, vocab);
    struct entropy e = {.rows = rows,
                        .vocab = vocab,
                        .stride = stride,
                        .targets = targets,
                        .scale = 0.25f,
                        .logits = tensor_random(rows * vocab, 2, deviation),
                        .losses = tensor_poison(rows)};
    struct tensor fused = tensor_poison(rows), spread = spread_logits(&e);

    backend_case("cross entropy, %zu rows of %zu, %zu apart", rows, vocab, stride);
    k->cross_entropy_forward(backend->device, e.losses.f32, e.logits.f32, targets, rows, vocab,
                             vocab);
    loss(&e);
    assert_tensor(&e.losses, 1e-6);

    k->cross_entropy_fused(backend->device, fused.f32, e.logits.f32, targets, e.scale, rows, vocab,
                           vocab);
    assert_same(fused.f32, e.losses.f32, rows);
    assert_gradient(loss, &e, e.logits.f64, e.logits.f32, NULL, rows * vocab, every, 1e-6);
    check_apart(backend, &e, &spread);
    tensor_free(&spread);
    tensor_free(&e.logits);
    tensor_free(&e.losses);
    tensor_free(&fused);
    free(targets);
}

/* Ignored rows have no loss and no gradient, for any content; the other rows have the results of a
 * batch without the ignored rows. */
static void check_ignored(const struct backend *backend, size_t vocab, size_t stride)
{
    enum { ROWS = 6 };
    int32_t targets[ROWS] = {3, -1, 0, -1, -1, 2};
    struct entropy e = {.rows = ROWS,
                        .vocab = vocab,
                        .stride = stride,
                        .targets = targets,
                        .scale = 0.5f,
                        .logits = tensor_random(ROWS * vocab, 3, 1),
                        .losses = tensor_poison(ROWS)};
    struct tensor spread = spread_logits(&e);

    spread.f32[3 * stride] = NAN;
    spread.f32[4 * stride + vocab - 1] = INFINITY;
    backend->kernel->cross_entropy_forward(backend->device, e.losses.f32, e.logits.f32, targets,
                                           ROWS, vocab, vocab);
    loss(&e);
    assert_tensor(&e.losses, 1e-6);
    backend->kernel->cross_entropy_fused(backend->device, e.losses.f32, e.logits.f32, targets,
                                         e.scale, ROWS, vocab, vocab);
    assert_gradient(loss, &e, e.logits.f64, e.logits.f32, NULL, ROWS * vocab, 1, 1e-6);
    check_apart(backend, &e, &spread);
    for (size_t row = 0; row < ROWS; row++) {
        if (targets[row] >= 0)
            continue;
        assert_true(e.losses.f32[row] == 0.0f);
        for (size_t column = 0; column < vocab; column++)
            assert_true(e.logits.f32[row * vocab + column] == 0.0f);
    }
    tensor_free(&spread);
    tensor_free(&e.logits);
    tensor_free(&e.losses);
}

static void check_rows_that_do_not_count(const struct backend *backend)
{
    check_ignored(backend, 37, 37);
    check_ignored(backend, 40, 64);
    check_ignored(backend, 501, 504);
}

static void check_entropy(const struct backend *backend)
{
    check_shape(backend, 1, 1, 1, 1, 1);
    check_shape(backend, 5, 37, 64, 1, 1);
    check_shape(backend, 2, 5003, 5005, 0.1f, 571); /* every exponential counts */
    check_shape(backend, 3, 5003, 5056, 30, 571);   /* several blocks; exponentials far below 1 */
    check_shape(backend, 2, 50257, 50304, 2, 9973);
}

static void check_not_a_number(const struct backend *backend)
{
    float logits[20] = {1, 2, NAN, 3}, loss_of_row;
    const int32_t target = 1;

    backend->kernel->cross_entropy_forward(backend->device, &loss_of_row, logits, &target, 1, 20,
                                           20);
    assert_true(isnan(loss_of_row));
}

static void test_entropy(void **state)
{
    (void)state;
    backend_each(check_entropy);
}

static void test_rows_that_do_not_count(void **state)
{
    (void)state;
    backend_each(check_rows_that_do_not_count);
}

static void test_not_a_number_shows_in_the_loss(void **state)
{
    (void)state;
    backend_each(check_not_a_number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_rows_that_do_not_count),
        cmocka_unit_test(test_not_a_number_shows_in_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
