/* The vector exponentials against libm in f64, in units of the last place of f32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cpu/vector_math.h"

static double ulps(float actual, double expected)
{
    float rounded = (float)expected;
    double unit = (double)nextafterf(fabsf(rounded), INFINITY) - (double)fabsf(rounded);
    return fabs((double)actual - expected) / unit;
}

static float exp_of(float x)
{
    float lanes[VEC_LANES];
    vec_store(lanes, vec_exp(vec_set(x)));
    return lanes[3];
}

static void test_exp_error(void **state)
{
    (void)state;
    double worst = 0;
    for (float x = -87; x <= 88; x += VEC_LANES * 0x1p-11f) {
        float arguments[VEC_LANES], results[VEC_LANES];
        for (int l = 0; l < VEC_LANES; l++)
            arguments[l] = x + (float)l * 0x1.000246p-11f;
        vec_store(results, vec_exp(vec_load(arguments)));
        for (int l = 0; l < VEC_LANES && arguments[l] <= 88; l++)
            worst = fmax(worst, ulps(results[l], exp((double)arguments[l])));
    }
    assert_true(worst < 1);
}

static void test_exp_edges(void **state)
{
    (void)state;
    assert_true(exp_of(0) == 1);
    assert_true(exp_of(-0.0f) == 1);
    assert_true(exp_of(-88) == 0);
    assert_true(exp_of(-INFINITY) == 0);
    assert_true(exp_of(INFINITY) == exp_of(88));
    assert_true(isnan(exp_of(NAN)));
}

static void test_sigmoid_and_complement(void **state)
{
    (void)state;
    double worst = 0;
    for (float x = -80; x <= 80; x += 0x1p-8f) {
        float values[VEC_LANES], complements[VEC_LANES];
        vec value, complement;
        vec_sigmoid(vec_set(x), &value, &complement);
        vec_store(values, value);
        vec_store(complements, complement);
        worst = fmax(worst, ulps(values[0], 1 / (1 + exp(-(double)x))));
        worst = fmax(worst, ulps(complements[0], 1 / (1 + exp((double)x))));
    }
    assert_true(worst < 3);
}

static void test_parts(void **state)
{
    (void)state;
    float from[VEC_LANES], to[VEC_LANES];
    for (int l = 0; l < VEC_LANES; l++)
        from[l] = (float)l;
    for (size_t count = 0; count <= VEC_LANES + 1; count++) {
        memset(to, 0, sizeof(to));
        vec_store_part(to, vec_load_part(from, count, 7), count);
        for (size_t l = 0; l < VEC_LANES; l++)
            assert_true(to[l] == (l < count ? (float)l : 0));
        vec_store(to, vec_load_part(from, count, 7));
        for (size_t l = count; l < VEC_LANES; l++)
            assert_true(to[l] == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_error),
        cmocka_unit_test(test_exp_edges),
        cmocka_unit_test(test_sigmoid_and_complement),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
