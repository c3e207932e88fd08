/* Tests of the plan to which a worker will switch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/pending_plan.h"

static struct plan *plan_of(uint64_t generation, bool planned)
{
    struct plan *plan = plan_new();

    assert_non_null(plan);
    plan->generation = generation;
    plan->change.planned = planned;
    return plan;
}

/* Offer a plan, and return whether it was taken. */
static bool offer(struct pending_plan *pending, uint64_t generation, bool planned)
{
    struct plan *plan = plan_of(generation, planned);
    bool taken = pending_plan_offer(pending, plan);

    if (!taken)
        plan_free(plan);
    return taken;
}

static void test_the_newest_plan_is_pending(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    assert_null(pending_plan_take(&pending));
    assert_true(offer(&pending, 5, true));
    assert_true(offer(&pending, 7, true));
    assert_false(offer(&pending, 6, true));
    assert_int_equal(pending.plan->generation, 7);
    struct plan *plan = pending_plan_take(&pending);
    assert_int_equal(plan->generation, 7);
    assert_null(pending.plan);
    plan_free(plan);
}

static void test_a_planned_plan_is_forgotten(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    assert_true(offer(&pending, 5, true));
    pending_plan_forget_planned(&pending);
    assert_null(pending.plan);
    assert_true(offer(&pending, 5, false));
    pending_plan_forget_planned(&pending);
    assert_non_null(pending.plan);
    pending_plan_done(&pending);
}

static void test_an_announced_plan_is_superseded_by_failures_alone(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    assert_true(offer(&pending, 5, true));
    pending_plan_await(&pending, 6);
    assert_false(pending_plan_is_here(&pending));
    assert_true(offer(&pending, 6, true));
    assert_true(pending_plan_is_here(&pending));
    assert_false(offer(&pending, 7, true));
    assert_true(offer(&pending, 8, false));
    assert_true(pending_plan_is_here(&pending));
    pending_plan_done(&pending);
}

/* Rank 0 announces within the step a plan that all ranks had, after a newer plan has come here. */
static void test_a_plan_that_was_told_of_is_kept(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    pending_plan_begin_step(&pending);
    assert_true(offer(&pending, 5, true));
    pending_plan_tell(&pending, 5);
    assert_true(offer(&pending, 6, true));
    assert_true(offer(&pending, 7, true));
    pending_plan_await(&pending, 5);
    assert_int_equal(pending.plan->generation, 5);
    assert_false(offer(&pending, 8, true)); /* too late */
    pending_plan_done(&pending);
}

static void test_what_was_told_of_gives_way(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        assert_true(offer(&pending, 5, true));
        pending_plan_tell(&pending, 5);
        assert_true(offer(&pending, 6, i != 0));
        if (i == 1) /* to the next step */
            pending_plan_begin_step(&pending);
        if (i == 2) /* to the plan that this rank has since reported */
            pending_plan_tell(&pending, 6);
        if (i == 3) /* to another announcement */
            pending_plan_await(&pending, 6);
        else
            pending_plan_await(&pending, 5);
        assert_int_equal(pending.plan->generation, 6); /* 0: to a failure */
        pending_plan_done(&pending);
        assert_null(pending.told);
    }
}

static struct plan *plan_revoking(uint64_t generation, uint64_t first)
{
    struct plan *plan = plan_of(generation, true);

    plan->change.revokes_first = first;
    plan->change.revokes_last = generation - 1;
    return plan;
}

/* No worker can enter the announced generation any more: its new workers are gone. */
static void test_an_announced_plan_is_revoked(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    assert_true(offer(&pending, 5, true));
    pending_plan_await(&pending, 5);
    struct plan *another = plan_revoking(7, 6);
    assert_false(pending_plan_offer(&pending, another));
    plan_free(another);
    assert_true(pending_plan_offer(&pending, plan_revoking(8, 4)));
    assert_true(pending_plan_is_here(&pending));
    assert_int_equal(pending.plan->generation, 8);
    pending_plan_done(&pending);
}

/* A pause requested then does not separate this worker from the workers with the other plan. */
static void test_what_follows_a_revoking_plan_comes_too_late(void **state)
{
    (void)state;
    for (unsigned early = 0; early <= 1; early++) {
        struct pending_plan pending = {0};
        assert_true(offer(&pending, 5, true));
        if (!early)
            pending_plan_await(&pending, 5);
        assert_true(pending_plan_offer(&pending, plan_revoking(7, 5)));
        if (early)
            pending_plan_await(&pending, 5);
        assert_false(offer(&pending, 8, true));
        assert_int_equal(pending.plan->generation, 7);
        assert_true(pending_plan_is_here(&pending));
        assert_true(pending_plan_offer(&pending, plan_revoking(9, 5))); /* 7 is revoked as well */
        assert_false(offer(&pending, 10, true));
        assert_true(offer(&pending, 11, false));
        pending_plan_done(&pending);
    }
}

/* It waits for links of 5; a pause that follows the generation before would make it leave. */
static void test_who_has_left_for_a_generation_goes_on_from_it(void **state)
{
    struct pending_plan pending = {0};

    (void)state;
    pending_plan_enter(&pending, 5);
    assert_false(offer(&pending, 6, true));
    assert_true(pending_plan_offer(&pending, plan_revoking(7, 5)));
    assert_false(offer(&pending, 8, true));
    assert_true(offer(&pending, 9, false));
    plan_free(pending_plan_take(&pending));
    pending_plan_enter(&pending, 9);
    assert_false(offer(&pending, 10, true));
    pending_plan_enter(&pending, 0); /* the links are made */
    assert_true(offer(&pending, 11, true));
    pending_plan_done(&pending);
}

static void test_a_revoked_plan_does_not_come_back(void **state)
{
    (void)state;
    for (uint64_t first = 5; first <= 6; first++) {
        struct pending_plan pending = {0};
        assert_true(offer(&pending, 5, true));
        pending_plan_tell(&pending, 5);
        assert_true(pending_plan_offer(&pending, plan_revoking(7, first)));
        pending_plan_await(&pending, 5);
        assert_int_equal(pending.plan->generation, first == 5 ? 7 : 5);
        pending_plan_done(&pending);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_plan_is_pending),
        cmocka_unit_test(test_a_planned_plan_is_forgotten),
        cmocka_unit_test(test_an_announced_plan_is_superseded_by_failures_alone),
        cmocka_unit_test(test_a_plan_that_was_told_of_is_kept),
        cmocka_unit_test(test_what_was_told_of_gives_way),
        cmocka_unit_test(test_an_announced_plan_is_revoked),
        cmocka_unit_test(test_what_follows_a_revoking_plan_comes_too_late),
        cmocka_unit_test(test_who_has_left_for_a_generation_goes_on_from_it),
        cmocka_unit_test(test_a_revoked_plan_does_not_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
