/* Pauses between tries: they grow to a bound, differ from node to node, and can be repeated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "membership/transport/backoff.h"

#define MIN_NS (100 * NS_PER_MS)
#define MAX_NS (900 * NS_PER_MS)

static void test_pauses_grow_to_the_bound(void **state)
{
    (void)state;
    static const uint64_t spans_ms[] = {100, 200, 400, 800, 900, 900};
    struct backoff backoff;
    backoff_init(&backoff, MIN_NS, MAX_NS, "n0");
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(spans_ms) / sizeof(spans_ms[0]); i++) {
            uint64_t span_ns = spans_ms[i] * NS_PER_MS;
            assert_in_range(backoff_next(&backoff), span_ns / 2, span_ns);
        }
        backoff_reset(&backoff);
    }
}

static void test_nodes_differ_and_repeat(void **state)
{
    (void)state;
    struct backoff a, again, b;
    backoff_init(&a, MIN_NS, MAX_NS, "n0");
    backoff_init(&again, MIN_NS, MAX_NS, "n0");
    backoff_init(&b, MIN_NS, MAX_NS, "n1");
    for (unsigned i = 0; i < 8; i++) {
        uint64_t pause_ns = backoff_next(&a);
        assert_int_equal(backoff_next(&again), pause_ns);
        assert_int_not_equal(backoff_next(&b), pause_ns);
    }
}

/* The attempts of a thousand nodes with one cause are spread over the whole span. */
static void test_spread_is_even(void **state)
{
    (void)state;
    unsigned counts[4] = {0};
    for (unsigned node = 0; node < 1000; node++) {
        const char name[] = {'n', (char)('0' + node / 100), (char)('0' + node / 10 % 10),
                             (char)('0' + node % 10), '\0'};
        struct backoff backoff;
        backoff_init(&backoff, MIN_NS, MAX_NS, name);
        counts[backoff_spread(&backoff, 3)]++;
    }
    for (unsigned i = 0; i < 4; i++)
        assert_in_range(counts[i], 200, 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_grow_to_the_bound),
        cmocka_unit_test(test_nodes_differ_and_repeat),
        cmocka_unit_test(test_spread_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
