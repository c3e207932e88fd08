/*
 * Tests that slots return by themselves after pauses that double, and that an hour without a
 * failure resets the pause.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "elastic/agent/slot_backoff.h"

#define TIMEOUT_NS 1500000000ull
#define MINUTE_NS  60000000000ull

static void test_pauses_double_up_to_four_hours(void **state)
{
    static const unsigned minutes[] = {5, 10, 20, 40, 80, 160, 240, 240};
    struct slot_backoff slot = {0};
    uint64_t now_ns = 7;
    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(minutes); i++) {
        uint64_t until_ns = slot_backoff_take_out(&slot, now_ns, TIMEOUT_NS);
        assert_true(until_ns == now_ns + minutes[i] * MINUTE_NS);
        assert_false(slot_backoff_watches(&slot, until_ns - 1));
        assert_false(slot_backoff_try(&slot, until_ns - 1, TIMEOUT_NS));
        assert_true(slot_backoff_try(&slot, until_ns, TIMEOUT_NS));
        assert_false(slot_backoff_try(&slot, until_ns, TIMEOUT_NS)); /* already in service */
        now_ns = until_ns + 59 * MINUTE_NS;
        assert_true(slot_backoff_watches(&slot, now_ns));
    }
}

static void test_an_hour_forgets(void **state)
{
    struct slot_backoff slot = {0};
    (void)state;
    assert_false(slot_backoff_watches(&slot, 1));
    assert_false(slot_backoff_try(&slot, 1, TIMEOUT_NS));
    uint64_t back_ns = slot_backoff_take_out(&slot, 1, TIMEOUT_NS);
    assert_true(slot_backoff_try(&slot, back_ns, TIMEOUT_NS));
    assert_false(slot_backoff_watches(&slot, back_ns + 60 * MINUTE_NS));
    assert_true(slot_backoff_take_out(&slot, back_ns + 60 * MINUTE_NS, TIMEOUT_NS) ==
                back_ns + 65 * MINUTE_NS);
}

/* Two jobs may find the same slot bad: the pause is not extended. */
static void test_who_is_out_stays_out_no_longer(void **state)
{
    struct slot_backoff slot = {0};
    (void)state;
    uint64_t until_ns = slot_backoff_take_out(&slot, 1, TIMEOUT_NS);
    assert_true(slot_backoff_take_out(&slot, 2, TIMEOUT_NS) == until_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_double_up_to_four_hours),
        cmocka_unit_test(test_an_hour_forgets),
        cmocka_unit_test(test_who_is_out_stays_out_no_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
