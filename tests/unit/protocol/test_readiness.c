/* Tests of the ranks that have the next plan, and of the switch that they allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "lib/elastic/ranked_plan.h"
#include "protocol/plan_spread.h"
#include "protocol/readiness.h"

#define RANKS 12
#define NOW   4
#define NEXT  9

/* The ranks below @count have the plan of generation NEXT. */
static struct readiness ready_below(unsigned count)
{
    struct readiness sum, one;

    readiness_init(&sum, 0, count > 0 ? NEXT : 0);
    for (unsigned rank = 1; rank < RANKS; rank++) {
        readiness_init(&one, rank, rank < count ? NEXT : 0);
        readiness_merge(&sum, &one);
    }
    return sum;
}

static void test_a_switch_needs_the_plan_on_every_rank_that_stays(void **state)
{
    struct plan *plan = ranked_plan(RANKS), *next = ranked_plan(RANKS), *fewer = ranked_plan(3);

    (void)state;
    plan->generation = NOW;
    next->generation = fewer->generation = NEXT;
    next->follows = fewer->follows = NOW;
    next->change.planned = fewer->change.planned = true;
    for (unsigned count = 0; count <= RANKS; count++) {
        struct readiness readiness = ready_below(count);
        bool few_lack = RANKS - count <= READINESS_LACKING_MAX;
        assert_int_equal(readiness_switch(&readiness, plan, next), count == RANKS ? NEXT : 0);
        assert_int_equal(readiness_switch(&readiness, plan, fewer),
                         count >= 3 && few_lack ? NEXT : 0);
    }
    plan_free(plan);
    plan_free(next);
    plan_free(fewer);
}

static void test_only_a_planned_change_of_this_generation_follows(void **state)
{
    struct readiness readiness = ready_below(RANKS);
    struct plan *plan = ranked_plan(RANKS), *next = ranked_plan(RANKS);

    (void)state;
    plan->generation = NOW;
    next->generation = NEXT;
    next->follows = NOW;
    assert_int_equal(readiness_switch(&readiness, plan, NULL), 0);
    assert_int_equal(readiness_switch(&readiness, plan, next), 0);
    next->change.planned = true;
    assert_int_equal(readiness_switch(&readiness, plan, next), NEXT);
    next->follows = NOW - 1;
    assert_int_equal(readiness_switch(&readiness, plan, next), 0);
    next->follows = NOW;
    next->generation = NEXT + 1; /* the ranks have another one */
    assert_int_equal(readiness_switch(&readiness, plan, next), 0);
    plan_free(plan);
    plan_free(next);
}

static void test_a_plan_has_spread_when_every_child_has_said_so(void **state)
{
    struct plan_spread spread = {0};

    (void)state;
    assert_true(plan_spread_is_complete(&spread, 0, NEXT));
    for (unsigned child = 0; child < 3; child++) {
        CLEANUP(bytes_done) struct bytes message = {0};
        assert_false(plan_spread_is_complete(&spread, 3, NEXT));
        assert_int_equal(plan_spread_pack(NEXT, &message), 0);
        assert_int_equal(plan_spread_take(&spread, child, message.data, message.size_bytes - 1),
                         -EBADMSG);
        assert_int_equal(plan_spread_take(&spread, child, message.data, message.size_bytes), 0);
    }
    assert_true(plan_spread_is_complete(&spread, 3, NEXT));
    assert_false(plan_spread_is_complete(&spread, 3, NEXT + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_switch_needs_the_plan_on_every_rank_that_stays),
        cmocka_unit_test(test_only_a_planned_change_of_this_generation_follows),
        cmocka_unit_test(test_a_plan_has_spread_when_every_child_has_said_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
