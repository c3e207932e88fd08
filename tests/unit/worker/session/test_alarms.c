/*
 * Tests that an alarm names the remedy, and begins once: the same failure at the next checkpoint
 * raises no new alarm.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "worker/session/alarms.h"

static void test_news_are_told_once(void **state)
{
    struct alarms alarms = {0};

    (void)state;
    assert_false(alarms_set(&alarms, ALARM_CHECKPOINT, ""));
    assert_true(alarms_set(&alarms, ALARM_CHECKPOINT, "full"));
    assert_false(alarms_set(&alarms, ALARM_CHECKPOINT, "full"));
    assert_true(alarms_set(&alarms, ALARM_CHECKPOINT, "failing"));
    assert_string_equal(alarms_shown(&alarms), "failing");
    assert_true(alarms_set(&alarms, ALARM_CHECKPOINT, ""));
    assert_string_equal(alarms_shown(&alarms), "");
}

/* A written metrics line does not clear the alarm of checkpoints. */
static void test_each_trouble_ends_by_itself(void **state)
{
    struct alarms alarms = {0};

    (void)state;
    assert_true(alarms_set(&alarms, ALARM_METRICS, "no metrics"));
    assert_true(alarms_set(&alarms, ALARM_CHECKPOINT, "no checkpoint"));
    assert_string_equal(alarms_shown(&alarms), "no checkpoint");
    assert_false(alarms_set(&alarms, ALARM_METRICS, ""));
    assert_true(alarms_set(&alarms, ALARM_CHECKPOINT, ""));
    assert_string_equal(alarms_shown(&alarms), "");
}

static void words_of(int code, unsigned step, char ret_text[CONTROL_TEXT_SIZE])
{
    struct error error = {0};

    assert_int_equal(error_set(&error, code, "beginning the checkpoint of step %u: no", step),
                     code);
    alarms_of_checkpoint("/mnt/checkpoints", &error, ret_text);
}

static void test_what_to_do_is_said(void **state)
{
    static const int codes[] = {-EACCES, -EROFS, -ENOSPC, -EDQUOT, -ENOENT, -EIO};
    char text[CONTROL_TEXT_SIZE], later[CONTROL_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        words_of(codes[i], 40, text);
        words_of(codes[i], 80, later);
        assert_string_equal(text, later);
        assert_non_null(strstr(text, "/mnt/checkpoints"));
        assert_non_null(strstr(text, strerror(-codes[i])));
    }
    words_of(-EACCES, 40, text);
    assert_non_null(strstr(text, "let firnd's user write there"));
    words_of(-ENOMEM, 40, text); /* an unexplained code keeps its own message */
    assert_string_equal(text, "beginning the checkpoint of step 40: no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_news_are_told_once),
        cmocka_unit_test(test_each_trouble_ends_by_itself),
        cmocka_unit_test(test_what_to_do_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
