#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parity/oracle/backend.h"
#include "parity/oracle/gradient.h"
#include "parity/oracle/oracle.h"
#include "parity/oracle/tensor.h"

#define COUNT 9001 /* three shares and a tail */

static double value(const void *context)
{
    double output;
    oracle_gelu(&output, context, 1);
    return output;
}

static void check_gelu(const struct backend *backend)
{
    const struct kernel *k = backend->kernel;
    struct tensor input = tensor_random(COUNT, 1, 3), output = tensor_poison(COUNT);
    struct tensor d_output = tensor_random(COUNT, 2, 1), d_input = tensor_poison(COUNT);

    k->gelu_forward(backend->device, output.f32, input.f32, COUNT);
    oracle_gelu(output.f64, input.f64, COUNT);
    assert_tensor(&output, 5e-7);

    k->gelu_backward(backend->device, d_input.f32, d_output.f32, input.f32, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        d_input.f64[i] = d_output.f64[i] * gradient_at(value, &input.f64[i], &input.f64[i]);
    assert_tensor(&d_input, 1e-6);

    k->gelu_backward(backend->device, d_output.f32, d_output.f32, input.f32, COUNT);
    assert_same(d_output.f32, d_input.f32, COUNT);
    tensor_free(&input);
    tensor_free(&output);
    tensor_free(&d_output);
    tensor_free(&d_input);
}

/* Where tanh is 1 or -1 to the last bit, and where its argument overflows. */
static void check_extremes(const struct backend *backend)
{
    const float input[] = {0, -0.0f, 1e-30f, -1e-30f, 40, -40, 1e4f, -1e4f, 3e38f, -3e38f};
    const double expected[] = {0, 0, 5e-31, -5e-31, 40, 0, 1e4, 0, (double)3e38f, 0};
    const double slope[] = {0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0};
    const float ones[ARRAY_COUNT(slope)] = {1, 1, 1, 1, 1, 1, 1, 1};
    float output[ARRAY_COUNT(input)], d_input[ARRAY_COUNT(slope)];

    backend->kernel->gelu_forward(backend->device, output, input, ARRAY_COUNT(input));
    assert_near(output, expected, ARRAY_COUNT(input), 1e-7);
    backend->kernel->gelu_backward(backend->device, d_input, ones, input, ARRAY_COUNT(slope));
    assert_near(d_input, slope, ARRAY_COUNT(slope), 1e-7);
}

static void test_gelu(void **state)
{
    (void)state;
    backend_each(check_gelu);
}

static void test_extremes(void **state)
{
    (void)state;
    backend_each(check_extremes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
