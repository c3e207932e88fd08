/* Spans from nodes: dated, bounded, and only where they can be trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cluster/trace_set.h"
#include "lib/elastic/trace_sample.h"

#define LINE(slot, age, newest)                                                                    \
    "{\"slot\":" #slot ",\"age\":" #age ",\"pid\":1,\"newest_step\":" #newest ",\"problem\":\"\"}\n"

static struct trace_set set;
static uint8_t *ring;

static int make(void **state)
{
    static const char list[] = LINE(0, 0, 30) "not a line\n" LINE(1, 0, 31) LINE(1, 1, 12);

    (void)state;
    ring = trace_sample_new(31);
    if (trace_set_add_node(&set, "a") || trace_set_add_node(&set, "b") ||
        trace_set_list(&set, list, strlen(list)))
        return -1;
    return 0;
}

static int drop(void **state)
{
    (void)state;
    trace_set_done(&set);
    free(ring);
    return 0;
}

/* A node's answer from the ring, from @after on. */
static struct bytes answer(uint64_t after, unsigned count_max)
{
    const struct trace_query query = {
        .to_step = UINT64_MAX, .after = after, .count_max = count_max};
    struct bytes body = {0};
    struct error error = {0};

    assert_int_equal(trace_ring_select(ring, TRACE_RING_BYTES, &query, &body, &error), 0);
    return body;
}

/* Return whether there may be more. */
static bool take(struct trace_worker *worker, const struct bytes *body)
{
    struct error error = {0};
    bool more;

    assert_int_equal(trace_set_take(&set, worker, body->data, body->size_bytes, &more, &error), 0);
    return more;
}

static void take_all(struct trace_worker *worker)
{
    struct bytes body = answer(worker->last_number, TRACE_RING_SPANS);

    (void)take(worker, &body);
    bytes_done(&body);
}

static void test_a_list_names_the_workers_of_its_node(void **state)
{
    (void)state;
    assert_int_equal(set.worker_count, 3);
    for (size_t i = 0; i < set.worker_count; i++)
        assert_int_equal(set.workers[i].node, 1);
    assert_int_equal(set.workers[2].entry.age, 1);
    assert_int_equal(trace_set_newest_step(&set), 31);
}

static void test_answers_are_joined_and_dated(void **state)
{
    struct trace_worker *worker = &set.workers[0];
    unsigned parts = 0;
    bool more = true;

    (void)state;
    for (uint64_t number = 1; number <= 10; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, 30);
    while (more) {
        struct bytes body = answer(worker->last_number, 4);
        more = take(worker, &body);
        assert_false(take(worker, &body)); /* said twice, it is not counted twice */
        bytes_done(&body);
        parts++;
    }
    assert_int_equal(parts, 4); /* the last one was empty */
    assert_int_equal(worker->span_count, 10);
    assert_int_equal(set.span_count, 10);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(worker->spans[i].begin_ns, TRACE_SAMPLE_OFFSET_NS + (i + 1) * 1000);
}

static void test_an_answer_that_is_none_is_named(void **state)
{
    const struct bytes page = {.data =
                                   (uint8_t *)"<html>such a page does not exist here, but perhaps "
                                              "somewhere else</html> and so on and so forth",
                               .size_bytes = 90};

    (void)state;
    assert_false(take(&set.workers[0], &page));
    assert_string_equal(set.workers[0].entry.problem, "the head of the trace is damaged");
    assert_int_equal(set.span_count, 0);
}

static void test_damaged_spans_are_left_out(void **state)
{
    struct bytes body;

    (void)state;
    for (uint64_t number = 1; number <= 3; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, 30);
    body = answer(0, TRACE_RING_SPANS);
    body.data[sizeof(struct trace_head) + sizeof(struct trace_span) + 20] ^= 1;
    body.size_bytes -= 1;
    assert_true(take(&set.workers[0], &body));
    assert_int_equal(set.span_count, 1);
    bytes_done(&body);
}

/* The clock of a node, or its head, may say anything. */
static void test_a_span_without_a_date_is_left_out(void **state)
{
    static const int64_t offsets[] = {INT64_MAX, INT64_MIN, -1000000};

    (void)state;
    trace_sample_add(ring, 1, TRACE_FORWARD, 30);
    for (unsigned i = 0; i < ARRAY_COUNT(offsets); i++) {
        set.workers[0].last_number = 0;
        trace_head_update((struct trace_head *)ring, 1, offsets[i], 31);
        trace_head_update((struct trace_head *)ring, 2, offsets[i], 31);
        take_all(&set.workers[0]);
        assert_int_equal(set.span_count, 0);
    }
}

static void test_the_number_of_spans_is_bounded(void **state)
{
    struct error error = {0};
    struct bytes body;
    int status = 0;
    bool more;

    (void)state;
    for (uint64_t number = 1; number <= TRACE_RING_SPANS; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, 30);
    body = answer(0, TRACE_RING_SPANS);
    for (unsigned i = 0; !status && i <= TRACE_SET_SPANS_MAX / TRACE_RING_SPANS; i++) {
        set.workers[0].last_number = 0;
        status = trace_set_take(&set, &set.workers[0], body.data, body.size_bytes, &more, &error);
    }
    bytes_done(&body);
    assert_int_equal(status, -EFBIG);
    assert_non_null(strstr(error.text, "--steps"));
    assert_int_equal(set.span_count, TRACE_SET_SPANS_MAX);
}

/* A start before the first step, one among the steps, and one after them. */
static void fill_starts(void)
{
    trace_sample_add(ring, 10, TRACE_DEVICE, 0);
    trace_sample_add(ring, 100, TRACE_STEP, 30);
    trace_sample_add(ring, 110, TRACE_DEVICE, 0);
    trace_sample_add(ring, 120, TRACE_STEP, 31);
    trace_sample_add(ring, 140, TRACE_DEVICE, 0);
    take_all(&set.workers[1]);
    assert_int_equal(set.span_count, 5);
}

static void test_starts_outside_of_the_steps_are_dropped(void **state)
{
    (void)state;
    fill_starts();
    trace_set_trim(&set, false);
    assert_int_equal(set.span_count, 3);
    assert_int_equal(set.workers[1].span_count, 3);
    struct trace_range range = trace_set_range(&set);
    assert_int_equal(range.begin_ns, TRACE_SAMPLE_OFFSET_NS + 100000);
    assert_int_equal(range.end_ns, TRACE_SAMPLE_OFFSET_NS + 121000);
}

static void test_the_start_of_the_job_may_be_kept(void **state)
{
    (void)state;
    fill_starts();
    trace_set_trim(&set, true);
    assert_int_equal(set.span_count, 4);
    assert_int_equal(trace_set_range(&set).begin_ns, TRACE_SAMPLE_OFFSET_NS + 10000);
}

static void test_the_range_names_whole_steps(void **state)
{
    struct trace_range range = trace_set_range(&set);

    (void)state;
    assert_int_equal(range.end_ns, 0);
    for (uint64_t step = 28; step <= 31; step++)
        trace_sample_add(ring, step, TRACE_STEP, step);
    struct trace_span *broken = trace_sample_add(ring, 32, TRACE_STEP, 32);
    broken->broken = 1;
    trace_span_seal(broken);
    trace_sample_add(ring, 33, TRACE_FORWARD, 33);
    take_all(&set.workers[0]);
    range = trace_set_range(&set);
    assert_int_equal(range.first_step, 28);
    assert_int_equal(range.last_step, 31);
    assert_int_equal(range.end_ns, TRACE_SAMPLE_OFFSET_NS + 34000);
}

#define ON_SET(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SET(test_a_list_names_the_workers_of_its_node),
        ON_SET(test_answers_are_joined_and_dated),
        ON_SET(test_an_answer_that_is_none_is_named),
        ON_SET(test_damaged_spans_are_left_out),
        ON_SET(test_a_span_without_a_date_is_left_out),
        ON_SET(test_the_number_of_spans_is_bounded),
        ON_SET(test_starts_outside_of_the_steps_are_dropped),
        ON_SET(test_the_start_of_the_job_may_be_kept),
        ON_SET(test_the_range_names_whole_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
