/* Tests of layouts for jobs whose nodes have kept outputs of frozen layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "elastic/plan/plan.h"
#include "elastic/planner/planner.h"

#define UNITS  14
#define FROZEN 7
#define SLOTS  8

static struct planner_unit units[UNITS];
static struct planner_slot slots[SLOTS];
static struct planner_input input;
static struct plan *plan;

static int set_up(void **state)
{
    (void)state;
    memset(units, 0, sizeof(units));
    memset(slots, 0, sizeof(slots));
    for (unsigned u = 0; u < UNITS; u++)
        units[u] =
            (struct planner_unit){.forward_seconds = 0.01,
                                  .backward_seconds = u < FROZEN ? 0 : 0.02,
                                  .parameter_bytes = 1 << 20,
                                  .activation_bytes = 1 << 18,
                                  .boundary_bytes = 1 << 16,
                                  .samples = 1,
                                  .again = u == 0 ? PLAN_RECOMPUTE_NONE : PLAN_RECOMPUTE_ATTENTION,
                                  .trained = u >= FROZEN};
    for (unsigned i = 0; i < SLOTS; i++) {
        snprintf(slots[i].node, sizeof(slots[i].node), "a");
        snprintf(slots[i].address, sizeof(slots[i].address), "127.0.0.1:%u", i + 1);
        slots[i].slot = i;
        slots[i].speed = 1;
    }
    input = (struct planner_input){.units = units,
                                   .unit_count = UNITS,
                                   .slots = slots,
                                   .slot_count = SLOTS,
                                   .devices_max = SLOTS,
                                   .lanes = 8,
                                   .micro_batches_per_lane = 4,
                                   .link_bytes_per_second = 1e9,
                                   .link_latency_seconds = 50e-6};
    plan = plan_new();
    return plan ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    plan_free(plan);
    return 0;
}

static void keep(unsigned unit_count, double share)
{
    for (unsigned u = 0; u < UNITS; u++)
        units[u].kept_seconds = 0;
    planner_keep(&input, units, &(struct planner_kept){unit_count, share});
}

/* Return the predicted time of the best layout. */
static double best(void)
{
    struct error error = {0};
    double seconds;

    assert_int_equal(planner_run(&input, &plan->layout, NULL, NULL, &error), 0);
    assert_int_equal(error.code, 0);
    assert_int_equal(planner_predict(&input, &plan->layout, &seconds), 0);
    assert_true(seconds == plan->layout.predicted_step_seconds);
    return seconds;
}

/* Frozen units that cost nothing are in the first stage, with as many other units as balance the
 * stages. */
static void test_the_first_stage_has_what_it_loads(void **state)
{
    (void)state;
    input.stages_wanted = 4;
    input.replicas_wanted = 1;
    double computing = best();
    assert_true(plan->layout.stage_first_unit[1] < FROZEN);
    keep(FROZEN, 1);
    double loading = best();
    assert_true(plan->layout.stage_first_unit[1] > FROZEN);
    assert_true(loading < 0.85 * computing);
    keep(FROZEN, 0);
    assert_true(best() == computing);
}

/* Fewer outputs are kept than units are frozen: the other units are computed in any stage. */
static void test_a_part_of_the_frozen_units_is_kept(void **state)
{
    double before = INFINITY;

    (void)state;
    input.stages_wanted = 3;
    for (unsigned kept = 0; kept <= FROZEN; kept++) {
        keep(kept, 1);
        double seconds = best();
        assert_true(seconds <= before);
        before = seconds;
    }
}

static void test_what_is_kept_is_never_a_loss(void **state)
{
    (void)state;
    for (unsigned stages = 1; stages <= 6; stages++) {
        input.stages_wanted = stages;
        keep(0, 0);
        double computing = best();
        for (unsigned percent = 0; percent <= 100; percent += 20) {
            keep(FROZEN, percent / 100.0);
            assert_true(best() <= computing);
        }
    }
}

/* No slot has room for all frozen units: they are computed, as before. */
static void test_without_room_nothing_is_loaded(void **state)
{
    (void)state;
    input.stages_wanted = 7;
    for (unsigned u = 0; u < FROZEN; u++)
        units[u].parameter_bytes = 8 << 20;
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i].memory_bytes = (size_t)(FROZEN - 1) * (8 << 20);
    double computing = best();
    keep(FROZEN, 1);
    assert_true(best() == computing);
}

/* More slots than stages that the rest could make, of any shape. */
static void test_nearly_all_units_are_kept(void **state)
{
    (void)state;
    for (unsigned frozen = 0; frozen <= UNITS; frozen++) {
        for (unsigned u = 0; u < UNITS; u++) {
            units[u].trained = u >= frozen;
            units[u].backward_seconds = units[u].trained ? 0.02 : 0;
        }
        keep(0, 0);
        double computing = best();
        keep(frozen, 1);
        assert_true(best() <= computing);
        keep(UNITS + 7, 1); /* of another model, told by a confused worker */
        assert_true(best() <= computing);
    }
}

static void test_on_gpus_a_pipeline_loads_nothing(void **state)
{
    (void)state;
    input.kept_alone = true;
    input.stages_wanted = 4;
    double computing = best();
    keep(FROZEN, 1);
    assert_true(best() == computing);
    input.stages_wanted = 1;
    double loading = best();
    keep(0, 0);
    assert_true(loading < best());
}

static void test_trained_units_are_always_computed(void **state)
{
    (void)state;
    keep(UNITS, 1);
    for (unsigned u = 0; u < UNITS; u++)
        assert_true((units[u].kept_seconds > 0) == (u < FROZEN));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_stage_has_what_it_loads), TEST(test_a_part_of_the_frozen_units_is_kept),
        TEST(test_what_is_kept_is_never_a_loss),      TEST(test_without_room_nothing_is_loaded),
        TEST(test_nearly_all_units_are_kept),         TEST(test_on_gpus_a_pipeline_loads_nothing),
        TEST(test_trained_units_are_always_computed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
