#include "parity/oracle/tensor.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "parity/oracle/backend.h"
#include "parity/oracle/differences.h"

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

double tensor_off(double actual, double expected, double tolerance)
{
    double off = fabs(actual - expected);

    if (isnan(off))
        return INFINITY;
    return off <= tolerance * (1 + fabs(expected)) ? 0.0 : off;
}

void assert_near_as(const char *name, const float *actual, const double *expected, size_t count,
                    double tolerance)
{
    struct differences d = {.name = name, .count = count};
    char rule[64];

    tolerance = backend_tolerance(tolerance);
    for (size_t i = 0; i < count; i++)
        differences_add(&d, i, (double)actual[i], expected[i],
                        tensor_off((double)actual[i], expected[i], tolerance));
    snprintf(rule, sizeof(rule), "to be within %.1e", tolerance);
    differences_judge(&d, rule);
}

void assert_tensor_as(const char *name, const struct tensor *tensor, double tolerance)
{
    assert_near_as(name, tensor->f32, tensor->f64, tensor->count, tolerance);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

void assert_same_as(const char *name, const float *actual, const float *expected, size_t count)
{
    struct differences d = {.name = name, .count = count};

    for (size_t i = 0; i < count; i++) {
        bool same = bits_of(actual[i]) == bits_of(expected[i]);
        double apart = fabs((double)actual[i] - (double)expected[i]); /* 0 of two zeros, too */
        differences_add(&d, i, (double)actual[i], (double)expected[i],
                        same ? 0.0 : fmax(apart, DBL_MIN));
    }
    differences_judge(&d, "to be the same bits");
}
