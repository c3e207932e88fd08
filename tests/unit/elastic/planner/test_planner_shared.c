/* Tests of layouts whose replicas share lanes: chosen where that makes the step shorter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/plan/plan.h"
#include "elastic/planner/planner_time.h"

#define UNITS         6
#define SLOTS         7
#define LANES         8
#define MICRO_BATCHES 10

static struct planner_unit units[UNITS];
static struct planner_slot slots[SLOTS];
static struct planner_input input;
static struct plan *plan;

/* A micro-batch takes 0.18 s in one stage, and 6 MiB are trained. */
static int begin(void **state)
{
    (void)state;
    for (unsigned u = 0; u < UNITS; u++)
        units[u] = (struct planner_unit){.forward_seconds = 0.01,
                                         .backward_seconds = 0.02,
                                         .parameter_bytes = 1 << 20,
                                         .boundary_bytes = 1 << 16,
                                         .trained = true};
    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < SLOTS; i++) {
        snprintf(slots[i].node, sizeof(slots[i].node), "n%u", i);
        slots[i].speed = 1;
    }
    input = (struct planner_input){.units = units,
                                   .unit_count = UNITS,
                                   .slots = slots,
                                   .slot_count = SLOTS,
                                   .devices_max = SLOTS,
                                   .stages_wanted = 1,
                                   .lanes = LANES,
                                   .micro_batches_per_lane = MICRO_BATCHES,
                                   .shares_lanes = true,
                                   .link_bytes_per_second = 1e9};
    plan = plan_new();
    return plan ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    plan_free(plan);
    return 0;
}

static void run(void)
{
    struct error error = {0};
    assert_int_equal(planner_run(&input, &plan->layout, NULL, NULL, &error), 0);
}

/* 8 lanes on 7 replicas take as long as 1 1/7 lanes, not as two. */
static void test_seven_replicas_share_eight_lanes(void **state)
{
    (void)state;
    run();
    assert_int_equal(plan->layout.replica_count, 7);
    assert_non_null(plan->layout.replica_head);
    assert_int_equal(plan->layout.lane_micro_batches, MICRO_BATCHES);
    for (unsigned replica = 0; replica < 7; replica++) {
        double lanes = plan_layout_lanes_computed(&plan->layout, replica);
        assert_true(lanes >= 1.1 && lanes <= 1.2);
    }
    double shared = plan->layout.predicted_step_seconds, again;
    assert_int_equal(planner_predict(&input, &plan->layout, &again), 0);
    assert_true(fabs(again - shared) < 1e-12);
    input.shares_lanes = false;
    run();
    assert_int_equal(plan->layout.replica_count, 4); /* as fast as 7 that carry whole lanes */
    assert_null(plan->layout.replica_head);
    assert_int_equal(plan->layout.lane_micro_batches, 0);
    assert_true(plan->layout.head_seconds == 0);
    assert_true(plan->layout.predicted_step_seconds > 1.6 * shared);
}

/* The rest of a step may still be shared, when it is divided anew. */
static void test_even_lanes_are_not_shared(void **state)
{
    (void)state;
    input.slot_count = 4;
    run();
    assert_int_equal(plan->layout.replica_count, 4);
    assert_null(plan->layout.replica_head);
    assert_int_equal(plan->layout.lane_micro_batches, MICRO_BATCHES);
}

static void test_lanes_of_one_micro_batch_are_not_shared(void **state)
{
    (void)state;
    input.micro_batches_per_lane = 1;
    run();
    assert_null(plan->layout.replica_head);
}

/* The head's sum takes 6 MiB / bandwidth, in the time of the owner's other micro-batches. */
static void test_a_slow_link_counts(void **state)
{
    (void)state;
    const double bytes = 6 << 20, micro_batch = 0.18;
    input.replicas_wanted = 7;
    /* 12 micro-batches instead of 20; two of them hide the transfer, and the reduction is slower
     * with more parts. */
    input.link_bytes_per_second = bytes / (5 * micro_batch);
    run();
    assert_non_null(plan->layout.replica_head);
    assert_true(fabs(plan->layout.head_seconds - 5 * micro_batch) < 1e-3);
    input.link_bytes_per_second = bytes / (11 * micro_batch);
    run();
    assert_null(plan->layout.replica_head);
}

/* Return the least memory of a slot, to a KiB, at which replicas share lanes or, if not @shared, at
 * which any layout fits. */
static size_t least_memory(bool shared)
{
    size_t low = 0, high = (size_t)1 << 30;
    while (high - low > 1024) {
        struct error error = {0};
        for (unsigned i = 0; i < SLOTS; i++)
            slots[i].memory_bytes = (low + high) / 2;
        int status = planner_run(&input, &plan->layout, NULL, NULL, &error);
        if (status == 0 && (plan->layout.replica_head || !shared))
            high = (low + high) / 2;
        else
            low = (low + high) / 2;
    }
    return high;
}

/* Sums of heads have buffers of their own: without room for them lanes are whole. */
static void test_short_of_memory_lanes_are_whole(void **state)
{
    (void)state;
    input.replicas_wanted = 5; /* 2 buffers for two lanes; 3 with a rest, a lane and a head */
    double more = (double)least_memory(true) - (double)least_memory(false);
    unsigned buffers = buffers_even(LANES, MICRO_BATCHES, 5) - buffers_even(LANES, 0, 5);
    assert_true(buffers > 0);
    assert_true(more >= buffers * 6.0 * (1 << 20) - 4096 && more <= buffers * 6.5 * (1 << 20));
}

/* The slow slot gets its part to the micro-batch: all finish together. */
static void test_unlike_slots_share_by_their_speeds(void **state)
{
    (void)state;
    input.slot_count = 3;
    input.replicas_wanted = 3;
    slots[1].speed = 0.5;
    run();
    assert_non_null(plan->layout.replica_head);
    for (unsigned replica = 0; replica < 3; replica++) {
        double speed = strcmp(plan->layout.workers[replica].node, "n1") == 0 ? 0.5 : 1;
        double seconds = plan_layout_lanes_computed(&plan->layout, replica) / speed;
        assert_true(fabs(seconds - LANES / 2.5) <= 0.21);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_seven_replicas_share_eight_lanes, begin, end),
        cmocka_unit_test_setup_teardown(test_even_lanes_are_not_shared, begin, end),
        cmocka_unit_test_setup_teardown(test_lanes_of_one_micro_batch_are_not_shared, begin, end),
        cmocka_unit_test_setup_teardown(test_a_slow_link_counts, begin, end),
        cmocka_unit_test_setup_teardown(test_short_of_memory_lanes_are_whole, begin, end),
        cmocka_unit_test_setup_teardown(test_unlike_slots_share_by_their_speeds, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
