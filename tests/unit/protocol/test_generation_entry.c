/* Tests of the entry of a worker, with the state that it has, into the generation of a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/elastic/ranked_plan.h"
#include "protocol/generation_entry.h"

#define STEP 41

static struct plan *plan_from_memory(bool planned, uint64_t instance)
{
    struct plan *plan = ranked_plan(2);

    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = STEP;
    plan->change.planned = planned;
    plan->layout.workers[1].instance = instance;
    return plan;
}

static void test_only_the_very_next_step_that_is_held_is_applied(void **state)
{
    static const struct {
        bool has_commit, holds;
        uint64_t commit_step;
        bool applies;
    } cases[] = {{true, true, STEP + 1, true},
                 {false, true, STEP + 1, false},
                 {true, false, STEP + 1, false},
                 {true, true, STEP, false},
                 {true, true, STEP + 2, false}};
    struct plan *plan = plan_from_memory(false, 7);

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct generation_entry entry = {
            .applied_step = STEP, .holds = cases[i].holds, .has_state = true};
        plan->start.has_commit = cases[i].has_commit;
        plan->start.commit.step = cases[i].commit_step;
        assert_int_equal(generation_entry_applies(&entry, plan), cases[i].applies);
    }
    plan_free(plan);
}

static void test_state_of_another_step_never_enters_a_plan_after_a_failure(void **state)
{
    static const struct {
        bool planned, has_state;
        uint64_t instance, applied_step;
        enum generation_entry_state result;
    } cases[] = {
        {false, true, 7, STEP, GENERATION_ENTRY_KEEPS},
        {false, true, 7, STEP - 1, GENERATION_ENTRY_REFUSES},
        {false, true, 7, STEP + 1, GENERATION_ENTRY_REFUSES},
        {false, true, 0, STEP - 1, GENERATION_ENTRY_DROPS},
        {false, false, 7, 0, GENERATION_ENTRY_KEEPS}, /* it has none: units that it lacks show it */
        {true, true, 7, STEP - 1, GENERATION_ENTRY_KEEPS}, /* the boundary of the switch is not
                                                              known to the leader */
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct plan *plan = plan_from_memory(cases[i].planned, cases[i].instance);
        const struct generation_entry entry = {.applied_step = cases[i].applied_step,
                                               .has_state = cases[i].has_state};
        assert_int_equal(generation_entry_state(&entry, plan, 1), cases[i].result);
        plan->start.source = PLAN_SOURCE_CHECKPOINT;
        assert_int_equal(generation_entry_state(&entry, plan, 1), GENERATION_ENTRY_KEEPS);
        plan_free(plan);
    }
}

static void test_a_worker_that_is_left_out_keeps_state_that_others_go_on_from(void **state)
{
    const struct generation_entry same = {.applied_step = STEP, .has_state = true},
                                  older = {.applied_step = STEP - 1, .has_state = true},
                                  none = {.applied_step = STEP};
    struct plan *plan = plan_from_memory(false, 7);

    (void)state;
    assert_true(generation_entry_steps_aside(&same, plan));
    assert_false(generation_entry_steps_aside(&older, plan));
    assert_false(generation_entry_steps_aside(&none, plan));
    plan->change.planned = true; /* others have taken it over already */
    assert_false(generation_entry_steps_aside(&same, plan));
    plan_free(plan);
}

static void test_newcomers_wait_until_any_other_plan_comes(void **state)
{
    struct plan *plan = plan_from_memory(true, 0), *pending = plan_from_memory(true, 0);

    (void)state;
    assert_true(generation_entry_is_newcomer(plan, 1));
    plan->layout.workers[1].instance = 7;
    assert_false(generation_entry_is_newcomer(plan, 1));
    plan->change.planned = false;
    plan->layout.workers[1].instance = 0;
    assert_false(generation_entry_is_newcomer(plan, 1));
    assert_false(generation_entry_is_replaced(NULL, 1, true));
    assert_true(generation_entry_is_replaced(pending, 1, true));
    assert_false(generation_entry_is_replaced(pending, 1, false));
    pending->change.planned = false;
    assert_true(generation_entry_is_replaced(pending, 1, false));
    plan_free(plan);
    plan_free(pending);
}

static void test_a_revoked_change_is_waited_for_by_nobody(void **state)
{
    struct plan *pending = plan_from_memory(true, 0);

    (void)state;
    pending->generation = 9;
    assert_false(generation_entry_is_replaced(pending, 8, false));
    pending->change.revokes_first = pending->change.revokes_last = 8;
    assert_true(generation_entry_is_replaced(pending, 8, false));
    assert_false(generation_entry_is_replaced(pending, 7, false));
    plan_free(pending);
}

static void test_links_are_waited_for_as_long_as_operations_differ(void **state)
{
    const uint64_t start = 30;
    struct plan *plan = plan_from_memory(true, 7), *failure = plan_from_memory(false, 7);

    (void)state;
    assert_int_equal(generation_entry_links_ns(plan, plan, start, 0), start);
    assert_int_equal(generation_entry_links_ns(plan, plan, start, 250), start + 1000);
    plan->change.busy_ns = 2000;
    assert_int_equal(generation_entry_links_ns(plan, plan, start, 250), start + 2000);
    /* After a failure all have stopped before the plan is made. */
    assert_int_equal(generation_entry_links_ns(failure, failure, start, 250), start);
    failure->start.source = PLAN_SOURCE_CHECKPOINT;
    assert_true(generation_entry_links_ns(failure, failure, start, 250) ==
                GENERATION_ENTRY_NO_LIMIT);
    /* The links of its last checkpoint are made by workers that have their state. */
    assert_int_equal(generation_entry_links_ns(failure, plan, start, 0), start + 2000);
    plan_free(plan);
    plan_free(failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_very_next_step_that_is_held_is_applied),
        cmocka_unit_test(test_state_of_another_step_never_enters_a_plan_after_a_failure),
        cmocka_unit_test(test_a_worker_that_is_left_out_keeps_state_that_others_go_on_from),
        cmocka_unit_test(test_newcomers_wait_until_any_other_plan_comes),
        cmocka_unit_test(test_a_revoked_change_is_waited_for_by_nobody),
        cmocka_unit_test(test_links_are_waited_for_as_long_as_operations_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
