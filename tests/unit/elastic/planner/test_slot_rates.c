/* Tests of the speed of slots in plans: constants of their kind, or the best measured rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/job/job_spec.h"
#include "elastic/planner/planner.h"

#define SLOTS 4

static struct job_spec spec = {
    .model = {.layers = 2, .width = 64, .heads = 4, .context = 32, .vocab = 256},
    .train = {.lanes = 4, .micro_batch = 2, .micro_batches_per_lane = 1}};
static struct planner_slot slots[SLOTS];
static struct planner_unit units[6];

static int setup(void **state)
{
    (void)state;
    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < SLOTS; i++) {
        slots[i] = (struct planner_slot){.slot = i, .speed = 1, .gpu = true, .node = "a"};
    }
    return 0;
}

static struct planner_input input_of_slots(void)
{
    struct planner_input input;
    planner_job(&spec, 0, slots, SLOTS, units, &input);
    return input;
}

static void test_nothing_measured(void **state)
{
    const struct slot_rates kind = slot_rates(true, JOB_PRECISION_BF16);
    struct planner_input input = input_of_slots();

    (void)state;
    assert_true(input.link_bytes_per_second == kind.link_bytes_per_second);
    assert_true(input.updated_bytes_second == kind.updated_bytes_second);
}

static void test_the_best_of_all_is_the_rate_of_each(void **state)
{
    struct planner_input input = input_of_slots();
    double unmeasured = units[1].forward_seconds;

    (void)state;
    slots[1].measured = (struct slot_measured){.flops_per_second = {8e14, 1e14, 1e13},
                                               .memory_bytes_per_second = 3e12};
    slots[2].measured = (struct slot_measured){.flops_per_second = {7e14, 2e14, 1e13},
                                               .link_bytes_per_second = 2e11};
    input = input_of_slots();
    assert_true(units[1].forward_seconds < unmeasured);
    double best = units[1].forward_seconds;
    assert_true(input.link_bytes_per_second == 2e11);
    /* The position of the slower measured slots does not matter. */
    slots[3].measured = slots[0].measured = slots[2].measured;
    input = input_of_slots();
    assert_true(units[1].forward_seconds == best);
    slots[0].measured.flops_per_second[0] = 16e14;
    input = input_of_slots();
    assert_true(units[1].forward_seconds == best / 2);
    double updated = input.updated_bytes_second;
    slots[0].measured.memory_bytes_per_second = 6e12;
    assert_true(input_of_slots().updated_bytes_second == 2 * updated);
}

static void test_between_nodes_there_is_the_network(void **state)
{
    const struct slot_rates kind = slot_rates(true, JOB_PRECISION_BF16);

    (void)state;
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i].measured.link_bytes_per_second = 2e11;
    slots[3].node[0] = 'b';
    assert_true(input_of_slots().link_bytes_per_second == kind.link_bytes_per_second);
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i].measured.link_bytes_per_second = 5e9; /* not faster than inside a node */
    assert_true(input_of_slots().link_bytes_per_second == 5e9);
}

/* A GPU among slots of other kinds is planned as one of them. */
static void test_unlike_slots(void **state)
{
    const struct slot_rates cpu = slot_rates(false, JOB_PRECISION_F32);

    (void)state;
    for (unsigned i = 1; i < SLOTS; i++)
        slots[i].measured.link_bytes_per_second = 2e11;
    slots[0].gpu = false;
    assert_true(input_of_slots().link_bytes_per_second == cpu.link_bytes_per_second);
}

/* CPU slots compute in f32, even if the job sets another precision for GPUs. */
static void test_cpu_slots_are_planned_as_measured(void **state)
{
    const struct slot_rates kind = slot_rates(false, JOB_PRECISION_F32);
    struct planner_input input;

    (void)state;
    for (unsigned i = 0; i < SLOTS; i++)
        slots[i].gpu = false;
    assert_int_equal(spec.train.precision, JOB_PRECISION_BF16);
    input_of_slots();
    double unmeasured = units[1].forward_seconds;
    slots[2].measured.flops_per_second[JOB_PRECISION_F32] = 10 * kind.flops_per_second;
    slots[2].measured.memory_bytes_per_second = 7 * 3e10;
    input = input_of_slots();
    assert_true(units[1].forward_seconds < unmeasured / 5);
    assert_true(input.updated_bytes_second == 3e10);
    assert_true(input.link_bytes_per_second == kind.link_bytes_per_second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_measured, setup),
        cmocka_unit_test_setup(test_the_best_of_all_is_the_rate_of_each, setup),
        cmocka_unit_test_setup(test_between_nodes_there_is_the_network, setup),
        cmocka_unit_test_setup(test_unlike_slots, setup),
        cmocka_unit_test_setup(test_cpu_slots_are_planned_as_measured, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
