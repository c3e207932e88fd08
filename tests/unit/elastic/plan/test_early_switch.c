/* Tests of the decision to begin a planned change within a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/compiler.h"
#include "elastic/plan/early_switch.h"

#define WORKERS_MAX 8

/* Stages x replicas on the slots 0, 1, ... of node "a", from @first_slot on. */
struct sample {
    struct plan plan;
    struct plan_worker workers[WORKERS_MAX];
    unsigned first_unit[4], first_lane[WORKERS_MAX + 1];
};

static void sample_init(struct sample *sample, unsigned stages, unsigned replicas,
                        unsigned first_slot)
{
    *sample = (struct sample){.first_unit = {0, 3, 6, 9}};
    sample->plan = (struct plan){.generation = 7};
    sample->plan.layout = (struct plan_layout){.stage_count = stages,
                                               .replica_count = replicas,
                                               .worker_count = stages * replicas,
                                               .workers = sample->workers,
                                               .stage_first_unit = sample->first_unit,
                                               .replica_first_lane = sample->first_lane};
    for (unsigned replica = 0; replica <= replicas; replica++)
        sample->first_lane[replica] = replica;
    for (unsigned rank = 0; rank < stages * replicas; rank++) {
        snprintf(sample->workers[rank].node, sizeof(sample->workers[rank].node), "a");
        sample->workers[rank].slot = first_slot + rank;
    }
}

static void follow(struct sample *next, const struct sample *sample)
{
    next->plan.generation = sample->plan.generation + 1;
    next->plan.follows = sample->plan.generation;
    next->plan.change.planned = true;
}

/* Return whether @next begins after @passed seconds of a step that takes @left more. */
static bool begins(const struct sample *plan, const struct sample *next, double passed, double left)
{
    const struct early_switch step = {.passed_seconds = passed,
                                      .left_seconds = left,
                                      .kept = early_switch_kept(&plan->plan.layout, &next->plan)};

    return early_switch_begins(&plan->plan, &next->plan, &step);
}

static void test_added_replicas_begin_at_once_where_that_pays(void **state)
{
    struct early_switch step = {.left_seconds = 10, .pause_seconds = 3};
    struct sample one, two;

    (void)state;
    sample_init(&one, 2, 1, 0);
    sample_init(&two, 2, 2, 0);
    follow(&two, &one);
    assert_true(begins(&one, &two, 1000, 10));
    assert_false(begins(&one, &two, 1000, 0.9)); /* half of it is gained */
    assert_true(begins(&one, &two, 1000, 1.1));
    assert_false(early_switch_begins(&one.plan, &two.plan, &step)); /* switches take long here */
    step.pause_seconds = 2;
    assert_true(early_switch_begins(&one.plan, &two.plan, &step));
}

static void test_predicted_times_decide(void **state)
{
    struct sample one, two;

    (void)state;
    sample_init(&one, 1, 1, 0);
    sample_init(&two, 1, 2, 0);
    follow(&two, &one);
    one.plan.layout.predicted_step_seconds = 10;
    two.plan.layout.predicted_step_seconds = 9.9; /* the new slot is slow */
    assert_false(begins(&one, &two, 0, 10));
    two.plan.layout.predicted_step_seconds = 5;
    assert_true(begins(&one, &two, 0, 10));
    two.plan.layout.predicted_step_seconds = 12;
    assert_false(begins(&one, &two, 0, 1000));
}

static void test_lost_sums_count_against_a_change(void **state)
{
    const struct early_switch on_a_full_device = {.passed_seconds = 9, .left_seconds = 10};
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 1, 1, 0);
    sample_init(&next, 2, 3, 0); /* other stages: all sums are lost, a step takes a third */
    follow(&next, &plan);
    assert_true(begins(&plan, &next, 2, 10));
    assert_true(begins(&plan, &next, 15, 10)); /* 25 s of work again take 8.3 s */
    assert_false(begins(&plan, &next, 19, 10));
    sample_init(&next, 1, 2, 0);
    follow(&next, &plan);
    assert_true(begins(&plan, &next, 9, 10));
    assert_false(early_switch_begins(&plan.plan, &next.plan, &on_a_full_device));
}

/* A node that must leave does not wait for the end of a long step, at any loss. */
static void test_a_limited_change_does_not_wait_for_the_end_of_the_step(void **state)
{
    struct early_switch step = {.passed_seconds = 50, .left_seconds = 20, .kept = 0.5};
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 1, 2, 0);
    sample_init(&next, 1, 1, 0);
    follow(&next, &plan);
    assert_false(early_switch_begins(&plan.plan, &next.plan, &step));
    next.plan.change.is_limited = true;
    next.plan.change.limit_ns = 30000000000;
    next.plan.change.spare_ns = 30000000000;
    assert_false(early_switch_begins(&plan.plan, &next.plan, &step));
    step.waited_seconds = 11;
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step));
    next.plan.change.limit_ns = next.plan.change.spare_ns = 0;
    step.waited_seconds = 0;
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step));
}

static void test_sums_stay_with_replicas_whose_workers_stay_together(void **state)
{
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 2, 2, 0);
    plan.first_lane[1] = 1;
    plan.first_lane[2] = 4;
    sample_init(&next, 2, 1, 0); /* the second replica leaves, with 3 of 4 lanes */
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0.25);
    sample_init(&next, 2, 3, 0); /* slot 0 is not in it */
    for (unsigned rank = 0; rank < 6; rank++)
        next.workers[rank].slot++;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0);
    sample_init(&next, 2, 3, 0); /* two workers of the first replica exchange their stages */
    next.workers[0].slot = 1;
    next.workers[1].slot = 0;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0.75);
    sample_init(&next, 2, 3, 0); /* the two replicas exchange a worker of the second stage */
    next.workers[1].slot = 3;
    next.workers[3].slot = 1;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0);
    sample_init(&next, 2, 3, 0); /* another unit on the first stage */
    next.first_unit[1] = 4;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0);
    sample_init(&next, 1, 6, 0);
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0);
    sample_init(&next, 2, 3, 0); /* replicas may change their places */
    for (unsigned rank = 0; rank < 6; rank++)
        next.workers[rank].slot = (rank + 2) % 6;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 1);
}

/* Replicas with all their workers give their sums away. */
static void test_sums_that_are_given_are_kept(void **state)
{
    struct plan_move pairs[] = {{.from_rank = 1}, {.from_rank = 2}, {.from_rank = 3}};
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 2, 2, 0);
    sample_init(&next, 1, 4, 0);
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0);
    next.plan.start.sums = pairs;
    next.plan.start.sums_count = 3;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 1);
    sample_init(&next, 1, 2, 0);
    next.plan.start.sums = pairs;
    next.plan.start.sums_count = 3;
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 0.5);
    next.plan.layout.donor_count = 2; /* slots 2 and 3 */
    next.workers[2] = plan.workers[2];
    next.workers[3] = plan.workers[3];
    assert_true(early_switch_kept(&plan.plan.layout, &next.plan) == 1);
}

static void test_other_plans_never_begin_within_a_step(void **state)
{
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 1, 1, 0);
    sample_init(&next, 1, 2, 0);
    follow(&next, &plan);
    next.plan.change.is_limited = true;
    assert_true(begins(&plan, &next, 1, 10));
    next.plan.change.planned = false;
    assert_false(begins(&plan, &next, 1, 10));
    follow(&next, &plan);
    next.plan.follows = 3;
    assert_false(begins(&plan, &next, 1, 10));
}

/* A pause, or a drain that leaves too few slots: nothing is gained before the limit. */
static void test_an_empty_plan_begins_at_its_limit_only(void **state)
{
    struct early_switch step = {.passed_seconds = 1, .left_seconds = 100};
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 1, 1, 0);
    sample_init(&next, 0, 0, 0);
    follow(&next, &plan);
    assert_false(early_switch_begins(&plan.plan, &next.plan, &step));
    next.plan.change.is_limited = true;
    next.plan.change.limit_ns = 101000000000;
    next.plan.change.spare_ns = PLAN_SPARE_ENDLESS;
    assert_false(early_switch_begins(&plan.plan, &next.plan, &step));
    step.waited_seconds = 2;
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step));
    step.ends = true; /* nobody would evaluate the finished model again */
    assert_false(early_switch_begins(&plan.plan, &next.plan, &step));
    next.plan.change.spare_ns = 101000000000;
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step));
}

/* The limit is the patience of people: no node goes. */
static void test_a_step_that_is_nearly_over_is_ended(void **state)
{
    struct early_switch step = {.passed_seconds = 50, .left_seconds = 10, .waited_seconds = 25};
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 1, 2, 0);
    sample_init(&next, 0, 0, 0);
    follow(&next, &plan);
    next.plan.change.is_limited = true;
    next.plan.change.limit_ns = 30000000000;
    next.plan.change.spare_ns = PLAN_SPARE_ENDLESS;
    assert_false(early_switch_begins(&plan.plan, &next.plan, &step));
    step.passed_seconds = 9; /* leaving it costs less */
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step));
    step = (struct early_switch){.passed_seconds = 500, .left_seconds = 31};
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step)); /* too long in any case */
    step = (struct early_switch){.passed_seconds = 50, .left_seconds = 10, .waited_seconds = 25};
    next.plan.change.spare_ns = 34000000000; /* a node goes before the end */
    assert_true(early_switch_begins(&plan.plan, &next.plan, &step));
}

/* The plan in force was predicted before its slots were measured. */
static void test_predictions_of_one_time_are_compared(void **state)
{
    struct sample plan, next;

    (void)state;
    sample_init(&plan, 1, 2, 0);
    sample_init(&next, 1, 1, 0);
    follow(&next, &plan);
    plan.plan.layout.predicted_step_seconds = 16;
    next.plan.layout.predicted_step_seconds = 8.5;
    assert_true(begins(&plan, &next, 1, 10));
    next.plan.change.before_seconds = 4.3;
    assert_false(begins(&plan, &next, 1, 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_replicas_begin_at_once_where_that_pays),
        cmocka_unit_test(test_predicted_times_decide),
        cmocka_unit_test(test_lost_sums_count_against_a_change),
        cmocka_unit_test(test_a_limited_change_does_not_wait_for_the_end_of_the_step),
        cmocka_unit_test(test_sums_stay_with_replicas_whose_workers_stay_together),
        cmocka_unit_test(test_sums_that_are_given_are_kept),
        cmocka_unit_test(test_other_plans_never_begin_within_a_step),
        cmocka_unit_test(test_a_step_that_is_nearly_over_is_ended),
        cmocka_unit_test(test_predictions_of_one_time_are_compared),
        cmocka_unit_test(test_an_empty_plan_begins_at_its_limit_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
