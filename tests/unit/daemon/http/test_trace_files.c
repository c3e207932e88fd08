/* firnd's answers from the traces in a job's folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http/trace_files.h"
#include "elastic/messages/trace_entry.h"
#include "lib/base/test_folder.h"
#include "lib/elastic/trace_sample.h"

static struct bytes body;

static int make(void **state)
{
    body = (struct bytes){0};
    return test_folder_make(state);
}

static int drop(void **state)
{
    bytes_done(&body);
    return test_folder_remove(state);
}

/* A ring of @span_count spans, one a step. */
static void write_ring(const char *name, uint64_t newest_step, unsigned span_count)
{
    AUTO_FREE uint8_t *ring = trace_sample_new(newest_step);

    for (unsigned number = 1; number <= span_count; number++)
        trace_sample_add(ring, number, TRACE_STEP, number);
    test_folder_write(name, ring, TRACE_RING_BYTES);
}

static struct trace_entry entry_at(unsigned index)
{
    const char *line = (const char *)body.data, *end;
    struct trace_entry entry;
    struct error error = {0};

    for (;; line = end + 1) {
        end = memchr(line, '\n', body.size_bytes - (size_t)(line - (const char *)body.data));
        assert_non_null(end);
        if (index-- == 0)
            break;
    }
    assert_int_equal(trace_entry_parse(line, (size_t)(end - line), &entry, &error), 0);
    return entry;
}

static void test_the_list_has_every_ring_readable_or_not(void **state)
{
    struct error error = {0};

    (void)state;
    write_ring("trace-0.ring", 12, 3);
    write_ring("trace-0.2.ring", 5, 3);
    test_folder_write_text("trace-4.ring", "nonsense");
    test_folder_write_text("trace-5.new", "a ring that is being made");
    test_folder_add("trace-6.ring");
    assert_int_equal(trace_files_list(test_folder_root, &body, &error), 0);
    assert_int_equal(entry_at(0).newest_step, 12);
    assert_int_equal(entry_at(0).pid, 77);
    assert_string_equal(entry_at(0).problem, "");
    assert_int_equal(entry_at(1).age, 2);
    assert_int_equal(entry_at(1).newest_step, 5);
    assert_int_equal(entry_at(2).slot, 4);
    assert_non_null(strstr(entry_at(2).problem, "too few"));
    assert_int_equal(entry_at(3).slot, 6);
    assert_non_null(strstr(entry_at(3).problem, "directory"));
}

static void test_a_folder_without_rings_is_not_found(void **state)
{
    struct error error = {0};

    (void)state;
    assert_int_equal(trace_files_list(test_folder_root, &body, &error), -ENOENT);
    assert_int_equal(trace_files_list("/nonexistent", &body, &error), -ENOENT);
    assert_int_equal(body.size_bytes, 0);
}

static void test_a_long_ring_is_read_in_parts(void **state)
{
    struct trace_query query = {
        .from_step = 1, .to_step = UINT64_MAX, .count_max = TRACE_FILES_SPANS_MAX};
    struct error error = {0};
    uint64_t next = 1;

    (void)state;
    write_ring("trace-0.ring", 9000, 9000);
    while (next <= 9000) {
        struct trace_span span;
        bytes_done(&body);
        body = (struct bytes){0};
        assert_int_equal(trace_files_read(test_folder_at("trace-0.ring"), &query, &body, &error),
                         0);
        assert_true(body.size_bytes <= (size_t)256 << 10);
        for (size_t at = sizeof(struct trace_head); at < body.size_bytes; at += sizeof(span)) {
            assert_true(trace_span_decode(body.data + at, &span));
            assert_int_equal(span.number, next++);
        }
        query.after = next - 1;
    }
}

static void test_a_file_that_is_no_ring_is_refused(void **state)
{
    const struct trace_query query = {.to_step = UINT64_MAX, .count_max = 1};
    AUTO_FREE uint8_t *large = calloc(1, TRACE_RING_BYTES + 1);
    struct error error = {0};

    (void)state;
    assert_non_null(large);
    assert_int_equal(trace_files_read(test_folder_at("none"), &query, &body, &error), -ENOENT);
    test_folder_write_text("text", "nonsense");
    assert_int_equal(trace_files_read(test_folder_at("text"), &query, &body, &error), -EBADMSG);
    test_folder_write("large", large, TRACE_RING_BYTES + 1);
    assert_int_equal(trace_files_read(test_folder_at("large"), &query, &body, &error), -EFBIG);
}

#define IN_JOB(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_JOB(test_the_list_has_every_ring_readable_or_not),
        IN_JOB(test_a_folder_without_rings_is_not_found),
        IN_JOB(test_a_long_ring_is_read_in_parts),
        IN_JOB(test_a_file_that_is_no_ring_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
