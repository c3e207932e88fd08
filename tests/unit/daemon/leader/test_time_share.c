/* Tests of the time that a leader spends on decisions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "daemon/leader/time_share.h"

#define MS    (NS_PER_SECOND / 1000)
#define START (100 * NS_PER_SECOND)

/* Decide whenever it is allowed for @lasts_ns, @each_ns at a time. Return the time spent;
 * *ret_longest_ns: of decisions without a pause. */
static uint64_t decide_for(uint64_t lasts_ns, uint64_t each_ns, uint64_t *ret_longest_ns)
{
    struct time_share share = {0};
    uint64_t now_ns = START, spent_ns = 0, row_ns = 0;

    *ret_longest_ns = 0;
    while (now_ns < START + lasts_ns) {
        uint64_t free_ns = time_share_free_ns(&share, now_ns);
        if (free_ns > now_ns) {
            now_ns = free_ns;
            row_ns = 0;
            continue;
        }
        now_ns += each_ns;
        spent_ns += each_ns;
        row_ns += each_ns;
        *ret_longest_ns = MAX(*ret_longest_ns, row_ns);
        time_share_spend(&share, each_ns, now_ns);
    }
    return spent_ns;
}

static void test_small_decisions_do_not_wait(void **state)
{
    struct time_share share = {0};
    uint64_t now_ns = START;

    (void)state;
    for (unsigned i = 0; i < 1000; i++) { /* a third of the time */
        assert_true(time_share_free_ns(&share, now_ns) <= now_ns);
        now_ns += MS;
        time_share_spend(&share, MS, now_ns);
        now_ns += 2 * MS;
    }
}

static void test_hundreds_of_jobs_take_half_of_the_time(void **state)
{
    uint64_t longest_ns;
    uint64_t spent_ns = decide_for(10 * NS_PER_SECOND, 7 * MS, &longest_ns);

    (void)state;
    assert_true(spent_ns > 4900 * MS && spent_ns < 5100 * MS);
    assert_true(longest_ns <= 28 * MS); /* a burst and the decision that it began */
}

static void test_a_long_decision_is_made_up_for(void **state)
{
    uint64_t longest_ns;
    uint64_t spent_ns = decide_for(100 * NS_PER_SECOND, 900 * MS, &longest_ns);

    (void)state;
    assert_true(longest_ns == 900 * MS);
    assert_true(spent_ns < 52 * NS_PER_SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_decisions_do_not_wait),
        cmocka_unit_test(test_hundreds_of_jobs_take_half_of_the_time),
        cmocka_unit_test(test_a_long_decision_is_made_up_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
