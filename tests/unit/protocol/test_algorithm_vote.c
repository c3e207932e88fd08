/* Tests of messages of the vote on algorithms; whole votes over links: test_numerics_agreement.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "lib/elastic/ranked_plan.h"
#include "protocol/algorithm_vote.h"

static struct algorithm_vote root, child;

static int begin(void **state)
{
    *state = ranked_plan(2);
    return 0;
}

static int end(void **state)
{
    plan_free(*state);
    return 0;
}

static void test_a_message_that_is_no_list_is_refused(void **state)
{
    static const uint64_t heavy[] = {1, 2, UINT64_MAX};
    const struct plan *plan = *state;
    struct tree_round round;

    algorithm_vote_begin(&root, &round, &plan->layout, 0);
    assert_int_equal(tree_round_take(&round, heavy, 16), -EBADMSG);
    algorithm_vote_begin(&root, &round, &plan->layout, 0);
    assert_int_equal(tree_round_take(&round, heavy, 23), -EBADMSG);
    algorithm_vote_begin(&root, &round, &plan->layout, 0);
    assert_int_equal(tree_round_take(&round, heavy, sizeof(heavy)), -EBADMSG);
}

/* More choices than there are places: those that have one are compared. */
static void test_choices_without_a_place(void **state)
{
    const struct plan *plan = *state;
    struct tree_round above, below;
    CLEANUP(bytes_done) struct bytes message = {0};

    algorithm_vote_begin(&root, &above, &plan->layout, 0);
    algorithm_vote_begin(&child, &below, &plan->layout, 1);
    for (unsigned i = 0; i < ALGORITHM_CHOICES_MAX + 1; i++)
        algorithm_vote_add(&child, i, 7, false);
    algorithm_vote_add(&root, 3, 8, true);
    assert_int_equal(tree_round_pack(&below, &message), 0);
    assert_int_equal(message.size_bytes, ALGORITHM_CHOICES_MAX * 24);
    assert_int_equal(tree_round_take(&above, message.data, message.size_bytes), 0);
    assert_int_equal(tree_round_decide(&above), 0);
    assert_true(algorithm_vote_lost(&root, 3, 7));
    assert_false(algorithm_vote_lost(&root, 3, 8));
    assert_false(algorithm_vote_lost(&root, 4, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_message_that_is_no_list_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_choices_without_a_place, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
