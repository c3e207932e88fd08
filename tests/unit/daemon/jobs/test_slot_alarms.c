/* Several workers see one full disk: one alarm begins, and ends with the last of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/jobs/slot_alarms.h"

static void test_one_disk_is_one_alarm(void **state)
{
    struct slot_alarms alarms = {0};

    (void)state;
    assert_string_equal(slot_alarms_told(&alarms), "");
    assert_int_equal(slot_alarms_set(&alarms, 1, ""), SLOT_ALARMS_NOTHING_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 1, "full"), SLOT_ALARMS_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 1, "full"), SLOT_ALARMS_NOTHING_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 0, "full"), SLOT_ALARMS_NOTHING_NEW);
    assert_string_equal(slot_alarms_told(&alarms), "full");
    assert_int_equal(slot_alarms_set(&alarms, 1, ""), SLOT_ALARMS_NOTHING_NEW);
    assert_string_equal(slot_alarms_told(&alarms), "full");
    assert_int_equal(slot_alarms_set(&alarms, 0, ""), SLOT_ALARMS_OVER);
    assert_string_equal(slot_alarms_told(&alarms), "");
}

/* The worker of rank 0 and the one whose share is missing have different words for it. */
static void test_different_words_take_no_turns(void **state)
{
    struct slot_alarms alarms = {0};

    (void)state;
    assert_int_equal(slot_alarms_set(&alarms, 0, "given up"), SLOT_ALARMS_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 1, "full"), SLOT_ALARMS_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 0, "given up"), SLOT_ALARMS_NOTHING_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 1, "full"), SLOT_ALARMS_NOTHING_NEW);
    assert_int_equal(slot_alarms_set(&alarms, 1, "failing"), SLOT_ALARMS_NEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_disk_is_one_alarm),
        cmocka_unit_test(test_different_words_take_no_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
