/* Tests of a moment that may not have come yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/instant.h"

/* Time 0 is a moment as any other: a clock may begin there. */
static void test_the_first_time_counts(void **state)
{
    struct instant instant = {0};

    (void)state;
    assert_false(instant.is_set);
    instant_note(&instant, 0);
    assert_true(instant.is_set);
    instant_note(&instant, 7);
    assert_int_equal(instant.ns, 0);
    instant_clear(&instant);
    assert_false(instant.is_set);
    instant_note(&instant, 7);
    assert_int_equal(instant.ns, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_first_time_counts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
