#include "parity/tensor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/philox.h"
#include "parity/backend.h"

static struct tensor tensor_new(size_t count)
{
    struct tensor t = {
        .count = count, .f32 = calloc(count, sizeof(float)), .f64 = calloc(count, sizeof(double))};
    assert_non_null(t.f32);
    assert_non_null(t.f64);
    return t;
}

struct tensor tensor_random(size_t count, uint64_t seed, float deviation)
{
    struct tensor t = tensor_new(count);
    philox_fill_normal(philox_key_make(seed, 0), 0, 0.0f, deviation, t.f32, count);
    for (size_t i = 0; i < count; i++) {
        t.f32[i] = backend_round(t.f32[i]);
        t.f64[i] = (double)t.f32[i];
    }
    return t;
}

struct tensor tensor_poison(size_t count)
{
    struct tensor t = tensor_new(count);
    for (size_t i = 0; i < count; i++)
        t.f32[i] = NAN;
    return t;
}

void tensor_expect(struct tensor *tensor, const struct tensor *want)
{
    assert_int_equal(tensor->count, want->count);
    for (size_t i = 0; i < tensor->count; i++)
        tensor->f64[i] = (double)want->f32[i];
}

void tensor_free(struct tensor *tensor)
{
    free(tensor->f32);
    free(tensor->f64);
}

int32_t *tokens_random(size_t count, uint64_t seed, size_t vocab)
{
    int32_t *tokens = calloc(count, sizeof(*tokens));
    assert_non_null(tokens);
    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        philox_block(philox_key_make(seed, 1), i, 0, words);
        tokens[i] = (int32_t)(words[0] % vocab);
    }
    tokens[count / 2] = (int32_t)(vocab - 1);
    return tokens;
}

void assert_near(const float *actual, const double *expected, size_t count, double tolerance)
{
    tolerance = backend_tolerance(tolerance);
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)actual[i] - expected[i]);
        if (!(error <= tolerance * (1 + fabs(expected[i]))))
            fail_msg("%s: element %zu of %zu is %.9g, not %.9g", backend_name(), i, count,
                     (double)actual[i], expected[i]);
    }
}

void assert_tensor(const struct tensor *tensor, double tolerance)
{
    assert_near(tensor->f32, tensor->f64, tensor->count, tolerance);
}
