/* Several workers report one full disk: one alarm begins, and it ends with the last of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/jobs/slot_alarms.h"

static void expect_news(struct slot_alarms *alarms, unsigned slot, const char *text,
                        const char *event)
{
    char words[RECORD_TEXT_SIZE];
    assert_true(slot_alarms_set(alarms, slot, text, words));
    assert_string_equal(words, event);
}

static void expect_nothing_new(struct slot_alarms *alarms, unsigned slot, const char *text)
{
    char words[RECORD_TEXT_SIZE];
    assert_false(slot_alarms_set(alarms, slot, text, words));
}

static void test_one_disk_is_one_alarm(void **state)
{
    struct slot_alarms alarms = {0};

    (void)state;
    assert_string_equal(slot_alarms_shown(&alarms), "");
    expect_nothing_new(&alarms, 1, "");
    expect_news(&alarms, 1, "full", "full");
    expect_nothing_new(&alarms, 1, "full");
    expect_nothing_new(&alarms, 0, "full");
    assert_string_equal(slot_alarms_shown(&alarms), "full");
    expect_nothing_new(&alarms, 1, "");
    assert_string_equal(slot_alarms_shown(&alarms), "full");
    expect_news(&alarms, 0, "", "alarm over: full");
    assert_string_equal(slot_alarms_shown(&alarms), "");
}

/*
 * The worker of rank 0 and the worker of the missing share report the failure with different
 * messages.
 */
static void test_different_words_take_no_turns(void **state)
{
    struct slot_alarms alarms = {0};

    (void)state;
    expect_news(&alarms, 0, "given up", "given up");
    expect_news(&alarms, 1, "full", "full");
    expect_nothing_new(&alarms, 0, "given up");
    expect_nothing_new(&alarms, 1, "full");
    expect_news(&alarms, 1, "failing", "failing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_disk_is_one_alarm),
        cmocka_unit_test(test_different_words_take_no_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
