/* Tests of the logarithm: against libm's in f64, and its bits, which no compiler and no processor
 * may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/logarithm.h"

static void test_is_near_libm(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= 1000000; i++) {
        double x = i * 0.037 + 1.0 / i;
        double exact = log(x);
        /* x near 1 is of no use to anybody here: the sum of exponentials is at least 1 */
        assert_true(fabs(logarithm(x) - exact) <= 0x1p-51 * fmax(fabs(exact), 0.5));
    }
    for (int exponent = -1000; exponent <= 1000; exponent++) {
        double x = ldexp(1.2345, exponent), exact = log(x);
        assert_true(fabs(logarithm(x) - exact) <= 0x1p-52 * fabs(exact));
    }
}

static void test_bits_are_fixed(void **state)
{
    static const struct {
        double x;
        uint64_t bits;
    } known[] = {
        {1.0, 0x0000000000000000},     {2.0, 0x3fe62e42fefa39ef},
        {10.0, 0x40026bb1bbb55515},    {3.0, 0x3ff193ea7aad030a},
        {50257.0, 0x4025a659f6bed8c8}, {1.4142135623730951, 0x3fd62e42fefa39f1},
        {1e-30, 0xc05144f69ff9ffc4},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        double value = logarithm(known[i].x);
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        assert_true(bits == known[i].bits);
    }
}

static void test_ends_of_the_range(void **state)
{
    (void)state;
    assert_true(logarithm(0.0) == -INFINITY);
    assert_true(logarithm(INFINITY) == INFINITY);
    assert_true(isnan(logarithm((double)NAN)));
    assert_true(isnan(logarithm(-(double)NAN)));
    assert_true(isnan(logarithm(-1.0)));
    assert_true(isnan(logarithm(-INFINITY)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_near_libm),
        cmocka_unit_test(test_bits_are_fixed),
        cmocka_unit_test(test_ends_of_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
