#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

struct swiglu {
    size_t rows, width;
    struct tensor gate_up, output, d_output;
};

static double loss(const void *context)
{
    const struct swiglu *s = context;
    oracle_swiglu(s->output.f64, s->gate_up.f64, s->rows, s->width);
    return weighted_sum(s->output.f64, s->d_output.f64, s->output.count);
}

static void check_shape(const struct backend *backend, size_t rows, size_t width, size_t every)
{
    const struct kernel *k = backend->kernel;
    struct swiglu s = {.rows = rows,
                       .width = width,
                       .gate_up = tensor_random(rows * 2 * width, 1, 3),
                       .output = tensor_poison(rows * width),
                       .d_output = tensor_random(rows * width, 2, 1)};
    struct tensor d_gate_up = tensor_poison(s.gate_up.count);

    backend_case("SwiGLU, %zu rows of %zu", rows, width);
    k->swiglu_forward(backend->device, s.output.f32, s.gate_up.f32, rows, width);
    loss(&s);
    assert_tensor(&s.output, 5e-7);
    k->swiglu_backward(backend->device, d_gate_up.f32, s.d_output.f32, s.gate_up.f32, rows, width);
    assert_gradient(loss, &s, s.gate_up.f64, d_gate_up.f32, NULL, d_gate_up.count, every, 2e-6);

    k->swiglu_backward(backend->device, s.gate_up.f32, s.d_output.f32, s.gate_up.f32, rows, width);
    assert_same(s.gate_up.f32, d_gate_up.f32, d_gate_up.count);
    tensor_free(&s.gate_up);
    tensor_free(&s.output);
    tensor_free(&s.d_output);
    tensor_free(&d_gate_up);
}

/* Several blocks, and rows whose packs are aligned and not. */
static void check_swiglu(const struct backend *backend)
{
    check_shape(backend, 1, 3, 1);
    check_shape(backend, 5, 45, 1);
    check_shape(backend, 70, 144, 997);
}

/* Where the sigmoid is 0 or 1 to the last bit. */
static void check_extremes(const struct backend *backend)
{
    const float gate_up[] = {0, 100, -100, 1e4f, -1e4f, 2, 2, 2, 2, 2};
    const double expected[] = {0, 200, 0, 2e4, 0};
    const double slope[] = {1, 2, 0, 2, 0, 0, 100, 0, 1e4, 0};
    const float ones[] = {1, 1, 1, 1, 1};
    float output[ARRAY_COUNT(expected)], d_gate_up[ARRAY_COUNT(slope)];

    backend->kernel->swiglu_forward(backend->device, output, gate_up, 1, ARRAY_COUNT(expected));
    assert_near(output, expected, ARRAY_COUNT(expected), 1e-7);
    backend->kernel->swiglu_backward(backend->device, d_gate_up, ones, gate_up, 1,
                                     ARRAY_COUNT(expected));
    assert_near(d_gate_up, slope, ARRAY_COUNT(slope), 1e-7);
}

static void test_swiglu(void **state)
{
    (void)state;
    backend_each(check_swiglu);
}

static void test_extremes(void **state)
{
    (void)state;
    backend_each(check_extremes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_swiglu),
                                       cmocka_unit_test(test_extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
