/*
 * The trace as text for trace viewers; then again with its k-th allocation failing, for every k:
 * from a node's list to the text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ctl/report/trace_json.h"
#include "lib/elastic/trace_sample.h"
#include "lib/memory/fault_memory.h"

static uint8_t *ring;
static struct error failure;
static struct bytes text;

static int make_ring(void **state)
{
    (void)state;
    ring = trace_sample_new(8);
    trace_sample_add(ring, 1, TRACE_READ_STATE, 7)->generation = 2;
    struct trace_span *forward = trace_sample_add(ring, 2, TRACE_FORWARD, 7);
    forward->lane = 3;
    forward->micro_batch = 5;
    forward->duration_ns = 1234567;
    trace_sample_add(ring, 3, TRACE_WRITE, 6);
    trace_sample_add(ring, 4, TRACE_STEP, 7)->broken = 1;
    trace_sample_add(ring, 5, (enum trace_kind)9999, 7);
    struct trace_span *last = trace_sample_add(ring, 6, TRACE_STEP, 7);
    last->stage = 1;
    last->replica = 2;
    for (unsigned i = 0; i < 6; i++)
        trace_span_seal((struct trace_span *)(ring + TRACE_RING_HEAD_BYTES) + i);
    return 0;
}

static int free_ring(void **state)
{
    (void)state;
    free(ring);
    bytes_done(&text);
    return 0;
}

static const char events_text[] =
    "{\"unix_ns\":1000000000000003500,\"node\":\"b\",\"kind\":\"worker\",\"text\":\"a \\\"word\\\"\","
    "\"generation\":2}\n"
    "{\"unix_ns\":999999999999999999,\"node\":\"b\",\"kind\":\"early\",\"text\":\"\"}\n"
    "{\"unix_ns\":1000000000003500001,\"node\":\"b\",\"kind\":\"late\",\"text\":\"\"}\n"
    "{\"unix_ns\":1000000000000003500,\"node\":\"z\",\"kind\":\"unknown\",\"text\":\"\"}\n";

static int fill(struct trace_set *set, struct event_list *events, struct error *error)
{
    static const char list[] =
        "{\"slot\":1,\"age\":2,\"pid\":77,\"newest_step\":8,\"problem\":\"\"}\n";
    const struct trace_query query = {.to_step = UINT64_MAX, .count_max = 100};
    CLEANUP(bytes_done) struct bytes body = {0};
    bool more;
    int status = trace_set_add_node(set, "a");

    if (!status)
        status = trace_set_add_node(set, "b");
    if (!status)
        status = trace_set_list(set, list, strlen(list));
    if (!status)
        status = trace_ring_select(ring, TRACE_RING_BYTES, &query, &body, error);
    if (!status)
        status = trace_set_take(set, &set->workers[0], body.data, body.size_bytes, &more, error);
    if (!status)
        status = event_list_add(events, events_text, strlen(events_text), NULL);
    event_list_order(events);
    return status;
}

static int run(void)
{
    CLEANUP(trace_set_done) struct trace_set set = {0};
    CLEANUP(event_list_done) struct event_list events = {0};

    error_clear(&failure);
    bytes_done(&text);
    text = (struct bytes){0};
    int status = fill(&set, &events, &failure);
    if (!status)
        status = trace_json_append("dem\"o", &set, &events, &text);
    return status == -ENOMEM && !failure.code ? error_set(&failure, status, "no memory") : status;
}

static const json_t *entry(const json_t *entries, const char *name)
{
    for (size_t i = 0; i < json_array_size(entries); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(entries, i), "name")), name))
            return json_array_get(entries, i);
    fail_msg("there is no %s", name);
    return NULL;
}

static void expect(const json_t *object, const char *key, double value)
{
    assert_float_equal(json_number_value(json_object_get(object, key)), value, 1e-9);
}

static void expect_text(const json_t *object, const char *key, const char *value)
{
    assert_string_equal(json_string_value(json_object_get(object, key)), value);
}

static void check_spans(const json_t *entries)
{
    const json_t *forward = entry(entries, "forward"), *args = json_object_get(forward, "args");

    expect_text(forward, "ph", "X");
    expect_text(forward, "cat", "compute");
    expect(forward, "pid", 2);
    expect(forward, "tid", 1 + (3 + 2) * 2);
    expect(forward, "ts", 1);
    expect(forward, "dur", 1234.567);
    expect(args, "step", 7);
    expect(args, "lane", 3);
    expect(args, "micro_batch", 5);
    args = json_object_get(entry(entries, "read state"), "args");
    assert_null(json_object_get(args, "lane"));
    expect(args, "generation", 2);
    assert_true(json_is_false(
        json_object_get(json_object_get(entry(entries, "step 7"), "args"), "committed")));
    entry(entries, "other"); /* of a newer firn */
    expect(entry(entries, "write checkpoint"), "tid", 1 + (3 + 2) * 2 + 1);
}

static void check_names(const json_t *entries)
{
    static const char *const names[] = {"a",
                                        "events",
                                        "b",
                                        "events",
                                        "slot 1, earlier process 77: stage 1, replica 2",
                                        "slot 1, earlier process 77: checkpoint"};
    size_t found = 0;

    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *one = json_array_get(entries, i), *args = json_object_get(one, "args");
        const char *name = json_string_value(json_object_get(args, "name"));
        if (name)
            assert_string_equal(name, names[found++]);
    }
    assert_int_equal(found, ARRAY_COUNT(names));
}

static void check_events(const json_t *entries)
{
    const json_t *event = entry(entries, "worker");

    expect_text(event, "ph", "i");
    expect_text(json_object_get(event, "args"), "text", "a \"word\"");
    expect(event, "ts", 2.5);
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(entries, i), "name"));
        assert_string_not_equal(name, "early");
        assert_string_not_equal(name, "late");
        assert_string_not_equal(name, "unknown");
    }
}

static void test_the_text_is_a_trace(void **state)
{
    AUTO_JSON json_t *tree = NULL;
    json_t *entries, *facts;
    struct error error = {0};

    (void)state;
    assert_int_equal(run(), 0);
    assert_int_equal(
        json_parse((const char *)text.data, text.size_bytes, "the trace", &tree, &error), 0);
    assert_int_equal(json_get_object(tree, "otherData", &facts, &error), 0);
    expect_text(facts, "job", "dem\"o");
    expect_text(facts, "origin_unix_ns", "1000000000000001000");
    expect(facts, "last_step", 7);
    assert_int_equal(json_get_array(tree, "traceEvents", 1000, &entries, &error), 0);
    check_spans(entries);
    check_names(entries);
    check_events(entries);
}

static void test_a_trace_of_nothing_is_one_too(void **state)
{
    const struct trace_set set = {0};
    const struct event_list events = {0};
    AUTO_JSON json_t *tree = NULL;
    struct error error = {0};

    (void)state;
    bytes_done(&text);
    text = (struct bytes){0};
    assert_int_equal(trace_json_append("demo", &set, &events, &text), 0);
    assert_int_equal(
        json_parse((const char *)text.data, text.size_bytes, "the trace", &tree, &error), 0);
}

static void test_every_allocation_fails_once(void **state)
{
    (void)state;
    fault_memory_each(&failure, run, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_is_a_trace),
        cmocka_unit_test(test_a_trace_of_nothing_is_one_too),
        cmocka_unit_test(test_every_allocation_fails_once),
    };

    return cmocka_run_group_tests(tests, make_ring, free_ring);
}
