/* Tests of the time-out of an answer: longer after each wait in vain, and as long as answers take.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "membership/etcd/answer_timeout.h"

static void test_a_calm_server_is_left_soon(void **state)
{
    (void)state;
    struct answer_timeout patience;
    answer_timeout_init(&patience, NS_PER_SECOND);
    assert_int_equal(patience.limit_ns, 4 * NS_PER_SECOND); /* a thousand may start at once */
    for (unsigned i = 0; i < 10; i++)
        answer_timeout_answered(&patience, NS_PER_MS);
    assert_int_equal(patience.limit_ns, NS_PER_SECOND);
}

static void test_waiting_in_vain_doubles_it_once(void **state)
{
    (void)state;
    struct answer_timeout patience;
    answer_timeout_init(&patience, NS_PER_SECOND);
    for (unsigned i = 0; i < 300; i++) /* that began together */
        answer_timeout_lost(&patience, 4 * NS_PER_SECOND);
    assert_int_equal(patience.limit_ns, 8 * NS_PER_SECOND);
    answer_timeout_lost(&patience, NS_PER_SECOND); /* a call that began before */
    assert_int_equal(patience.limit_ns, 8 * NS_PER_SECOND);
    for (unsigned i = 0; i < 10; i++)
        answer_timeout_lost(&patience, patience.limit_ns);
    assert_int_equal(patience.limit_ns, 32 * NS_PER_SECOND);
    answer_timeout_lost(&patience, UINT64_MAX);
    assert_int_equal(patience.limit_ns, 32 * NS_PER_SECOND);
}

static void test_slow_answers_make_room(void **state)
{
    (void)state;
    struct answer_timeout patience;
    answer_timeout_init(&patience, NS_PER_SECOND);
    answer_timeout_answered(&patience, 3 * NS_PER_SECOND);
    assert_int_equal(patience.limit_ns, 12 * NS_PER_SECOND);
    answer_timeout_answered(&patience, NS_PER_MS); /* that one may have had luck */
    assert_int_equal(patience.limit_ns, 9 * NS_PER_SECOND);
    answer_timeout_answered(&patience, UINT64_MAX);
    assert_int_equal(patience.limit_ns, 32 * NS_PER_SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_calm_server_is_left_soon),
        cmocka_unit_test(test_waiting_in_vain_doubles_it_once),
        cmocka_unit_test(test_slow_answers_make_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
