/*
 * Tests that the memory of a process beside its tensors counts on CPU slots, but not on devices
 * with their own memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "elastic/job/job_spec.h"
#include "elastic/plan/plan.h"
#include "elastic/planner/planned_worker.h"
#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"

#define MIB ((size_t)1 << 20)

static struct job_spec gpt2_124m(void)
{
    return (struct job_spec){.name = "big",
                             .model = {.family = "gpt2",
                                       .layers = 12,
                                       .width = 768,
                                       .heads = 12,
                                       .context = 128,
                                       .vocab = 50257,
                                       .tied = true},
                             .train = {.lanes = 4,
                                       .micro_batch = 1,
                                       .micro_batches_per_lane = 1,
                                       .precision = JOB_PRECISION_F32},
                             .elastic = {.devices_max = 4}};
}

static struct job_spec toy(void)
{
    struct job_spec spec = gpt2_124m();
    spec.model.layers = 4;
    spec.model.width = 32;
    spec.model.heads = 2;
    spec.model.context = 32;
    spec.model.vocab = 256;
    return spec;
}

static void test_room_grows_with_the_memory_and_is_all_of_a_toy(void **state)
{
    (void)state;
    size_t process = 150 * MIB, before = 0;
    assert_int_equal(process_room(0, process), 0); /* no limit */
    for (size_t memory = 1; memory < 1024 * MIB; memory += MIB / 2) {
        size_t room = process_room(memory, process);
        assert_true(room >= before && room <= memory && room > 0);
        assert_true(memory > PROCESS_FREE_BYTES || room == memory);
        assert_true(memory < process + PROCESS_FREE_BYTES || room == memory - process);
        before = room;
    }
    assert_int_equal(process_room(4096 * MIB, 0), 4096 * MIB);
}

static void test_a_process_is_counted_by_model_and_threads(void **state)
{
    (void)state;
    const struct job_spec large = gpt2_124m(), small = toy();
    size_t one = process_bytes(&large.model, 1);
    assert_int_equal(process_bytes(&large.model, 0), one);
    assert_true(process_bytes(&large.model, 9) > one);
    assert_true(one > PROCESS_STAGING_BYTES + PROCESS_LINK_BYTES_MOST);
    assert_true(process_bytes(&small.model, 1) < one - PROCESS_STAGING_BYTES);
}

/* A model pays only for the bounds that it may reach. */
static void test_bounds_follow_from_the_models_size(void **state)
{
    (void)state;
    struct job_spec spec = toy();
    size_t before = 0;
    for (unsigned width = 32; width <= 2048; width *= 2) {
        spec.model.width = width;
        size_t links = process_link_bytes(&spec.model), process = process_bytes(&spec.model, 1);
        assert_true(links >= PROCESS_LINK_BYTES_LEAST && links <= PROCESS_LINK_BYTES_MOST);
        assert_true(process >= before);
        before = process;
    }
    assert_int_equal(process_link_bytes(&spec.model), PROCESS_LINK_BYTES_MOST);
    spec.model.width = 256; /* of a worker that takes 150 MiB in total */
    assert_true(process_bytes(&spec.model, 1) < PROCESS_STAGING_BYTES + 30 * MIB);
    assert_true(process_bytes(&spec.model, 8) < process_bytes(&spec.model, 1) + 16 * MIB);
}

/* Return the memory that the planner computes for 1 x 1 on slots of @memory; 0: nothing fits. */
static size_t planned(const struct job_spec *spec, size_t memory, bool gpu)
{
    struct planner_unit units[STEP_RECORD_UNITS_MAX];
    struct planner_slot slot = {
        .node = "a", .memory_bytes = memory, .speed = 1, .gpu = gpu, .threads = 1};
    struct planner_input input;
    struct planner_choice choices[PLANNER_CHOICES_MAX];
    unsigned count = 0;
    struct error error = {0};
    struct plan *plan = plan_new();
    assert_non_null(plan);
    planner_job(spec, 0, &slot, 1, units, &input);
    input.devices_max = 1;
    int status = planner_run(&input, &plan->layout, choices, &count, &error);
    assert_true(status == 0 || status == -ENOSPC);
    if (status == 0) {
        assert_int_equal(plan->layout.recompute, choices[0].recompute);
        assert_int_equal(planned_worker_bytes(spec, &plan->layout, 0, gpu, 1),
                         choices[0].memory_bytes_max);
    }
    plan_free(plan);
    return status == 0 ? choices[0].memory_bytes_max : 0;
}

static void test_a_cpu_slot_holds_the_process_too(void **state)
{
    (void)state;
    const struct job_spec spec = gpt2_124m();
    size_t whole = planned(&spec, 0, false), tensors = planned(&spec, 0, true);
    assert_true(whole > process_bytes(&spec.model, 1));
    assert_int_equal(planned(&spec, whole, false), whole);
    size_t again = planned(&spec, whole - 1, false); /* with recomputed sublayers, if at all */
    assert_true(again < whole);
    assert_true(tensors > 0 && tensors < whole - process_bytes(&spec.model, 1));
    assert_int_equal(planned(&spec, tensors, true), tensors);
}

static void test_a_toy_slot_holds_what_it_held(void **state)
{
    (void)state;
    const struct job_spec spec = toy();
    size_t whole = planned(&spec, 0, false), tensors = whole - process_bytes(&spec.model, 1);
    assert_true(tensors < 4 * MIB);
    assert_int_equal(planned(&spec, tensors, false), whole);
}

static void test_the_other_end_of_a_tied_table_comes_with_two_stages(void **state)
{
    (void)state;
    struct planner_unit units[STEP_RECORD_UNITS_MAX];
    const struct slot_rates rates = slot_rates(false, JOB_PRECISION_F32);
    size_t table = (size_t)50257 * 768 * sizeof(float), bytes[2][3];
    for (unsigned tied = 0; tied < 2; tied++) {
        struct job_spec spec = gpt2_124m();
        spec.model.tied = tied;
        planner_units(&spec.model, &spec.train, 0, &rates, units);
        bytes[tied][0] = planner_stage_bytes(units, 0, 13, 2, 4, PLAN_RECOMPUTE_NONE, 0);
        bytes[tied][1] = planner_stage_bytes(units, 13, 26, 1, 4, PLAN_RECOMPUTE_NONE, 0);
        bytes[tied][2] = planner_stage_bytes(units, 0, 26, 1, 4, PLAN_RECOMPUTE_NONE, 0);
        planner_units(&spec.model, &spec.train, 1, &rates,
                      units); /* frozen, the table has no gradient */
        assert_int_equal(units[0].tied_bytes + units[25].tied_bytes, 0);
    }
    assert_int_equal(bytes[1][0] - bytes[0][0], table);
    assert_int_equal(bytes[1][1] - bytes[0][1], table);
    assert_int_equal(bytes[1][2], bytes[0][2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_grows_with_the_memory_and_is_all_of_a_toy),
        cmocka_unit_test(test_a_process_is_counted_by_model_and_threads),
        cmocka_unit_test(test_bounds_follow_from_the_models_size),
        cmocka_unit_test(test_a_cpu_slot_holds_the_process_too),
        cmocka_unit_test(test_a_toy_slot_holds_what_it_held),
        cmocka_unit_test(test_the_other_end_of_a_tied_table_comes_with_two_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
