/* Tests of the logger: the messages that reach a sink, and the format of standard error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

struct capture {
    unsigned count;
    enum log_level level;
    char message[4096];
    size_t field_count;
    char first_value[64];
};

static void capture_sink(enum log_level level, const char *message, const struct log_field *fields,
                         size_t field_count, void *context)
{
    struct capture *capture = context;
    capture->count++;
    capture->level = level;
    snprintf(capture->message, sizeof(capture->message), "%s", message);
    capture->field_count = field_count;
    if (field_count > 0)
        snprintf(capture->first_value, sizeof(capture->first_value), "%s", fields[0].value);
    errno = EBADF;
}

static int restore(void **state)
{
    (void)state;
    log_set_sink(NULL, NULL);
    log_set_level(LOG_LEVEL_INFO);
    log_set_prefix("");
    return 0;
}

static void test_a_sink_gets_messages_and_fields(void **state)
{
    (void)state;
    struct capture capture = {0};
    log_set_sink(capture_sink, &capture);
    errno = ENOSPC;
    log_warning("slot %d is lost", 3);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(capture.message, "slot 3 is lost");
    assert_int_equal(capture.level, LOG_LEVEL_WARNING);
    assert_int_equal(capture.field_count, 0);

    struct log_field fields[LOG_FIELDS_MAX + 4];
    for (size_t i = 0; i < LOG_FIELDS_MAX + 4; i++)
        fields[i] = (struct log_field){"JOB", "gpt2"};
    log_event(LOG_LEVEL_ERROR, fields, LOG_FIELDS_MAX + 4, "done");
    assert_int_equal(capture.field_count, LOG_FIELDS_MAX);
    assert_string_equal(capture.first_value, "gpt2");
    assert_int_equal(capture.count, 2);
}

static void test_levels_above_the_set_one_are_dropped(void **state)
{
    (void)state;
    struct capture capture = {0};
    log_set_sink(capture_sink, &capture);
    log_debug("quiet");
    assert_int_equal(capture.count, 0);
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("loud");
    assert_int_equal(capture.count, 1);
    log_set_level(LOG_LEVEL_ERROR);
    log_warning("quiet");
    log_error("loud");
    assert_int_equal(capture.count, 2);
}

/* Catch the output of one call on standard error, with a pipe in its place. */
static void standard_error_of(const char *message, const struct log_field *fields,
                              size_t field_count, char *ret_line, size_t line_size)
{
    int ends[2];
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    log_event(LOG_LEVEL_WARNING, fields, field_count, "%s", message);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    close(saved);
    ssize_t count = read(ends[0], ret_line, line_size - 1);
    assert_true(count > 0);
    ret_line[count] = '\0';
    close(ends[0]);
}

static void test_a_line_has_time_prefix_level_and_fields(void **state)
{
    (void)state;
    char line[8192];
    const struct log_field fields[] = {{"JOB", "a"}, {"STEP", "7"}};
    log_set_prefix("worker a/0");
    standard_error_of("slow\nforged \x1b[2J", fields, 2, line, sizeof(line));
    /* 2025-01-31T23:59:59.123Z and a blank. */
    assert_int_equal(line[10], 'T');
    assert_int_equal(line[23], 'Z');
    assert_string_equal(line + 25, "worker a/0: warning: slow forged  [2J JOB=a STEP=7\n");
}

static void test_a_long_line_is_cut_but_closed(void **state)
{
    (void)state;
    char line[8192], value[4000];
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    const struct log_field fields[] = {{"A", value}, {"B", value}};
    standard_error_of(value, fields, 2, line, sizeof(line));
    size_t length = strlen(line);
    assert_in_range(length, 4000, 4096);
    assert_int_equal(line[length - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_sink_gets_messages_and_fields, restore),
        cmocka_unit_test_teardown(test_levels_above_the_set_one_are_dropped, restore),
        cmocka_unit_test_teardown(test_a_line_has_time_prefix_level_and_fields, restore),
        cmocka_unit_test_teardown(test_a_long_line_is_cut_but_closed, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
