/* Angles of the rotary embedding against the C library's functions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/net/rotary.h"

/* Near 1 neighbours in f32 are 2^-24 apart; the last bit of a frequency may be the other one, and
   then shows as many times as there are positions. */
static void check(double theta, unsigned head_width, unsigned context)
{
    const struct model_spec spec = {
        .family = MODEL_LLAMA, .head_width = head_width, .context = context, .rope_theta = theta};
    size_t half = head_width / 2;
    float *angles = malloc((size_t)context * head_width * sizeof(float));

    assert_non_null(angles);
    rotary_angles(&spec, angles);
    for (size_t t = 0; t < context; t += t < 64 ? 1 : 61)
        for (size_t c = 0; c < half; c++) {
            float frequency = (float)pow(theta, -2.0 * (double)c / head_width);
            double angle = (double)((float)t * frequency);
            double tolerance = 1e-7 + angle * 0x1p-23;
            assert_true(fabs((double)angles[t * head_width + c] - cos(angle)) <= tolerance);
            assert_true(fabs((double)angles[t * head_width + half + c] - sin(angle)) <= tolerance);
        }
    free(angles);
}

static void test_against_libm(void **state)
{
    (void)state;
    check(10000, 64, 2048);
    check(500000, 128, 4096);
    check(1, 2, 700);
    check(1000, 10, 16);
}

/* Four quarters of a turn, far from the beginning: 1000000 radians are 159154.94 turns. */
static void test_far_positions(void **state)
{
    (void)state;
    const struct model_spec spec = {
        .family = MODEL_LLAMA, .head_width = 2, .context = MODEL_CONTEXT_MAX, .rope_theta = 10};
    float *angles = malloc(2 * (size_t)spec.context * sizeof(float));

    assert_non_null(angles);
    rotary_angles(&spec, angles);
    for (size_t t = 1000000; t < 1000010; t++) {
        assert_true(angles[2 * t] == (float)cos((double)t));
        assert_true(angles[2 * t + 1] == (float)sin((double)t));
    }
    free(angles);
}

/* A wave's frequency is its angle at position 1. */
static float frequency_of(const struct model_rope_scaling *scaling, unsigned pair)
{
    const struct model_spec spec = {.family = MODEL_LLAMA,
                                    .head_width = 64,
                                    .context = 2,
                                    .rope_theta = 500000,
                                    .rope_scaling = *scaling};
    float angles[2 * 64];

    rotary_angles(&spec, angles);
    return asinf(angles[64 + 32 + pair]);
}

/* Llama 3.2's numbers: the wave of pair 14 is the last that stays, those of 15 to 17 are between,
   from 18 on they are 32 times as long. */
static void test_scaling_of_llama3(void **state)
{
    (void)state;
    const struct model_rope_scaling plain = {0};
    const struct model_rope_scaling scaled = {.type = MODEL_ROPE_LLAMA3,
                                              .factor = 32,
                                              .low_frequency_factor = 1,
                                              .high_frequency_factor = 4,
                                              .original_context = 8192};
    for (unsigned pair = 1; pair < 32; pair++) {
        double before = (double)frequency_of(&plain, pair);
        double turns = 8192 * before / (2 * M_PI);
        double stays = fmin(1, fmax(0, (turns - 1) / 3));
        double want = before * (stays + (1 - stays) / 32);
        assert_true(fabs((double)frequency_of(&scaled, pair) - want) <= 2e-7 * want);
        assert_int_equal(stays >= 1, pair <= 14);
        assert_int_equal(stays <= 0, pair >= 18);
    }
}

static void test_linear_scaling(void **state)
{
    (void)state;
    const struct model_rope_scaling plain = {0};
    const struct model_rope_scaling scaled = {.type = MODEL_ROPE_LINEAR, .factor = 2};

    for (unsigned pair = 1; pair < 32; pair++) {
        double half = (double)frequency_of(&plain, pair) / 2;
        assert_true(fabs((double)frequency_of(&scaled, pair) - half) <= 2e-7 * half);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_libm), cmocka_unit_test(test_far_positions),
        cmocka_unit_test(test_scaling_of_llama3), cmocka_unit_test(test_linear_scaling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
