/* Tests of the spans that readers get from whole, overwritten and damaged rings of a worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/elastic/trace_sample.h"

#define PLENTY (2 * TRACE_RING_SPANS)

static const struct trace_query everything = {.to_step = UINT64_MAX, .count_max = PLENTY};

static uint8_t *ring;
static struct bytes answer;

static int make(void **state)
{
    (void)state;
    ring = trace_sample_new(9);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    free(ring);
    bytes_done(&answer);
    return 0;
}

/* Return how many spans match. */
static size_t select_spans(const struct trace_query *query)
{
    struct error error = {0};

    bytes_done(&answer);
    answer = (struct bytes){0};
    assert_int_equal(trace_ring_select(ring, TRACE_RING_BYTES, query, &answer, &error), 0);
    assert_true(answer.size_bytes >= sizeof(struct trace_head));
    assert_int_equal((answer.size_bytes - sizeof(struct trace_head)) % sizeof(struct trace_span),
                     0);
    return (answer.size_bytes - sizeof(struct trace_head)) / sizeof(struct trace_span);
}

static struct trace_span selected(size_t index)
{
    struct trace_span span;

    assert_true(
        trace_span_decode(answer.data + sizeof(struct trace_head) + index * sizeof(span), &span));
    return span;
}

static void test_a_new_ring_has_no_spans(void **state)
{
    (void)state;
    assert_int_equal(select_spans(&everything), 0);
}

static void test_the_newest_overwrite_the_oldest(void **state)
{
    uint64_t count = TRACE_RING_SPANS + 10;

    (void)state;
    for (uint64_t number = 1; number <= count; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, number);
    assert_int_equal(select_spans(&everything), TRACE_RING_SPANS);
    for (uint64_t i = 0; i < TRACE_RING_SPANS; i++)
        assert_int_equal(selected(i).number, 11 + i);
}

static void test_a_query_is_answered_in_parts(void **state)
{
    struct trace_query query = {.from_step = 3, .to_step = 6, .count_max = 4};

    (void)state;
    trace_sample_add(ring, 1, TRACE_DEVICE, 0); /* of no step: always wanted */
    for (uint64_t number = 2; number <= 21; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, number / 2);
    assert_int_equal(select_spans(&query), 4);
    assert_int_equal(selected(0).step, 0);
    assert_int_equal(selected(1).step, 3);
    query.after = selected(3).number;
    assert_int_equal(select_spans(&query), 4);
    query.after = selected(3).number;
    assert_int_equal(select_spans(&query), 1);
    assert_int_equal(selected(0).step, 6);
    query.after = selected(0).number;
    assert_int_equal(select_spans(&query), 0);
}

static void test_a_damaged_span_is_left_out(void **state)
{
    (void)state;
    for (uint64_t number = 1; number <= 3; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, 1);
    uint8_t *second = ring + TRACE_RING_HEAD_BYTES + sizeof(struct trace_span);
    for (size_t at = 0; at < sizeof(struct trace_span); at++) {
        second[at] ^= 0x10;
        assert_int_equal(select_spans(&everything), 2);
        assert_int_equal(selected(1).number, 3);
        second[at] ^= 0x10;
    }
    assert_int_equal(select_spans(&everything), 3);
}

/* A worker dies, or is looked at, while it stores a span over an older one. */
static void test_a_torn_span_is_left_out(void **state)
{
    struct trace_span older, newer;
    uint8_t *first = ring + TRACE_RING_HEAD_BYTES;

    (void)state;
    older = *trace_sample_add(ring, 1, TRACE_FORWARD, 1);
    newer = *trace_sample_add(ring, 1 + TRACE_RING_SPANS, TRACE_BACKWARD, 9);
    for (size_t cut = 8; cut < sizeof(newer); cut += 8) { /* stores of words, in any order */
        memcpy(first, &older, sizeof(older));
        memcpy(first, &newer, cut);
        assert_int_equal(select_spans(&everything), 0);
        memcpy(first, &newer, sizeof(newer));
        memcpy(first, &older, cut);
        assert_int_equal(select_spans(&everything), 0);
    }
}

/* A span of an earlier round, or in a place that is not its own, is none of the last. */
static void test_a_span_in_a_wrong_place_is_left_out(void **state)
{
    struct trace_span span;

    (void)state;
    trace_sample_add(ring, 2, TRACE_FORWARD, 1);
    span = *trace_sample_add(ring, 3 + TRACE_RING_SPANS, TRACE_FORWARD, 9);
    assert_int_equal(select_spans(&everything), 1);
    assert_int_equal(selected(0).number, 3 + TRACE_RING_SPANS);
    memcpy(ring + TRACE_RING_HEAD_BYTES, &span, sizeof(span));
    assert_int_equal(select_spans(&everything), 1);
}

/* Times that no addition may overflow. */
static void test_a_span_without_an_end_is_left_out(void **state)
{
    struct trace_span *span = trace_sample_add(ring, 1, TRACE_FORWARD, 1);

    (void)state;
    span->duration_ns = UINT64_MAX;
    trace_span_seal(span);
    assert_int_equal(select_spans(&everything), 0);
    span->duration_ns = 1;
    span->begin_ns = INT64_MAX;
    trace_span_seal(span);
    assert_int_equal(select_spans(&everything), 0);
}

static int decode(struct trace_facts *facts, struct error *error)
{
    error_clear(error);
    return trace_head_decode(ring, TRACE_RING_BYTES, facts, error);
}

static void test_the_head_is_checked(void **state)
{
    struct trace_facts facts;
    struct error error = {0};
    struct trace_head *head = (struct trace_head *)ring;

    (void)state;
    assert_int_equal(decode(&facts, &error), 0);
    assert_int_equal(facts.pid, 77);
    assert_int_equal(facts.newest_step, 9);
    assert_int_equal(facts.unix_offset_ns, TRACE_SAMPLE_OFFSET_NS);
    for (size_t at = 0; at < offsetof(struct trace_head, live); at++) {
        ring[at] ^= 0x40;
        assert_true(decode(&facts, &error) < 0);
        assert_true(error.text[0]);
        assert_int_equal(trace_ring_select(ring, TRACE_RING_BYTES, &everything, &answer, &error),
                         error.code);
        ring[at] ^= 0x40;
    }
    head->version++;
    assert_int_equal(decode(&facts, &error), -EPROTO);
    assert_non_null(strstr(error.text, "format 2"));
}

/* A worker dies while it writes one of the two. */
static void test_one_half_of_what_changes_in_the_head_is_whole(void **state)
{
    struct trace_facts facts;
    struct error error = {0};
    struct trace_head *head = (struct trace_head *)ring;

    (void)state;
    trace_head_update(head, 2, TRACE_SAMPLE_OFFSET_NS + 1, 10);
    assert_int_equal(decode(&facts, &error), 0);
    assert_int_equal(facts.newest_step, 10);
    head->live[0].newest_step++;
    assert_int_equal(decode(&facts, &error), 0);
    assert_int_equal(facts.newest_step, 9);
    assert_int_equal(facts.unix_offset_ns, TRACE_SAMPLE_OFFSET_NS);
    head->live[1].crc32c++;
    assert_int_equal(decode(&facts, &error), -EBADMSG);
}

/* Cut off anywhere, in memory of exactly that size. */
static void test_a_short_ring_has_the_spans_that_are_whole(void **state)
{
    static const size_t cuts[] = {sizeof(struct trace_head),  TRACE_RING_HEAD_BYTES - 1,
                                  TRACE_RING_HEAD_BYTES,      TRACE_RING_HEAD_BYTES + 63,
                                  TRACE_RING_HEAD_BYTES + 64, TRACE_RING_HEAD_BYTES + 3 * 64 - 1};
    struct error error = {0};

    (void)state;
    for (uint64_t number = 1; number <= 3; number++)
        trace_sample_add(ring, number, TRACE_FORWARD, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cuts); i++) {
        AUTO_FREE uint8_t *copy = malloc(cuts[i]);
        size_t whole = cuts[i] < TRACE_RING_HEAD_BYTES ? 0 : (cuts[i] - TRACE_RING_HEAD_BYTES) / 64;
        assert_non_null(copy);
        memcpy(copy, ring, cuts[i]);
        bytes_done(&answer);
        answer = (struct bytes){0};
        assert_int_equal(trace_ring_select(copy, cuts[i], &everything, &answer, &error), 0);
        assert_int_equal(answer.size_bytes,
                         sizeof(struct trace_head) + whole * sizeof(struct trace_span));
    }
    assert_int_equal(
        trace_ring_select(ring, sizeof(struct trace_head) - 1, &everything, &answer, &error),
        -EBADMSG);
}

static void test_every_kind_has_a_word(void **state)
{
    (void)state;
    for (unsigned kind = TRACE_STEP; kind <= TRACE_WAIT_HEAD; kind++) {
        assert_string_not_equal(trace_span_word(kind), "other");
        for (unsigned other = TRACE_STEP; other < kind; other++)
            assert_string_not_equal(trace_span_word(kind), trace_span_word(other));
    }
    assert_string_equal(trace_span_word(0), "other");
    assert_string_equal(trace_span_word(TRACE_WAIT_HEAD + 1), "other");
    assert_string_equal(trace_span_word(UINT16_MAX), "other");
}

static void test_a_ring_has_a_name(void **state)
{
    char name[TRACE_RING_NAME_SIZE];

    (void)state;
    trace_ring_name(3, 0, name);
    assert_string_equal(name, "trace-3.ring");
    trace_ring_name(3, 2, name);
    assert_string_equal(name, "trace-3.2.ring");
    trace_ring_name(UINT32_MAX, UINT32_MAX, name);
    assert_string_equal(name, "trace-4294967295.4294967295.rin");
}

#define ON_RING(test) cmocka_unit_test_setup_teardown(test, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_RING(test_a_new_ring_has_no_spans),
        ON_RING(test_the_newest_overwrite_the_oldest),
        ON_RING(test_a_query_is_answered_in_parts),
        ON_RING(test_a_damaged_span_is_left_out),
        ON_RING(test_a_torn_span_is_left_out),
        ON_RING(test_a_span_in_a_wrong_place_is_left_out),
        ON_RING(test_a_span_without_an_end_is_left_out),
        ON_RING(test_the_head_is_checked),
        ON_RING(test_one_half_of_what_changes_in_the_head_is_whole),
        ON_RING(test_a_short_ring_has_the_spans_that_are_whole),
        cmocka_unit_test(test_every_kind_has_a_word),
        cmocka_unit_test(test_a_ring_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
