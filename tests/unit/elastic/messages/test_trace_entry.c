/* A node's line about one ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "elastic/messages/trace_entry.h"

static void test_a_line_says_what_was_written(void **state)
{
    CLEANUP(bytes_done) struct bytes line = {0};
    struct trace_entry entry = {.slot = 7, .age = 2, .pid = 4711, .newest_step = 99}, read;
    struct error error = {0};

    (void)state;
    strcpy(entry.problem, "the head of the \"trace\" is damaged");
    assert_int_equal(trace_entry_append(&entry, &line), 0);
    assert_int_equal(line.data[line.size_bytes - 1], '\n');
    assert_int_equal(trace_entry_parse((const char *)line.data, line.size_bytes - 1, &read, &error),
                     0);
    assert_int_equal(read.slot, 7);
    assert_int_equal(read.age, 2);
    assert_int_equal(read.pid, 4711);
    assert_int_equal(read.newest_step, 99);
    assert_string_equal(read.problem, entry.problem);
}

/* A damaged ring may name any step. */
static void test_a_step_out_of_range_is_cut(void **state)
{
    CLEANUP(bytes_done) struct bytes line = {0};
    struct trace_entry entry = {.newest_step = UINT64_MAX}, read;
    struct error error = {0};

    (void)state;
    assert_int_equal(trace_entry_append(&entry, &line), 0);
    assert_int_equal(trace_entry_parse((const char *)line.data, line.size_bytes - 1, &read, &error),
                     0);
    assert_int_equal(read.newest_step, INT64_MAX);
}

static void test_a_line_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *line, *named;
    } lines[] = {
        {"", "a list of traces"},
        {"<html>", "a list of traces"},
        {"{}", "slot"},
        {"{\"slot\":65536}", "slot"},
        {"{\"slot\":1,\"age\":3}", "age"},
        {"{\"slot\":1,\"age\":0,\"pid\":-1}", "pid"},
        {"{\"slot\":1,\"age\":0,\"pid\":1}", "newest_step"},
        {"{\"slot\":1,\"age\":0,\"pid\":1,\"newest_step\":5}", "problem"},
        {"{\"slot\":1,\"age\":0,\"pid\":1,\"newest_step\":5,\"problem\":5}", "problem"},
    };
    struct trace_entry entry;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        struct error error = {0};
        assert_int_equal(trace_entry_parse(lines[i].line, strlen(lines[i].line), &entry, &error),
                         -EINVAL);
        assert_non_null(strstr(error.text, lines[i].named));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_says_what_was_written),
        cmocka_unit_test(test_a_step_out_of_range_is_cut),
        cmocka_unit_test(test_a_line_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
