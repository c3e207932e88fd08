/*
 * Tests that elastic/, which must not use model/, plans with the sizes of model/: both count the
 * same parameters, of both families, and a worker takes the planned memory of its device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/job/job_spec.h"
#include "elastic/plan/plan.h"
#include "elastic/planner/planner_time.h"
#include "worker/step/memory.h"

static void compare_units(const struct job_spec *spec)
{
    struct model_spec model;
    struct error error = {0};
    if (state_model(&spec->model, &model, &error))
        fail_msg("%s", error.text);
    assert_int_equal(model_unit_count(&model), job_model_unit_count(&spec->model));
    for (unsigned unit = 0; unit < model_unit_count(&model); unit++) {
        struct unit_layout layout;
        size_t count = 0;
        model_unit_layout(&model, unit, &layout);
        for (unsigned i = 0; i < layout.tensor_count; i++)
            count += layout.tensors[i].count;
        assert_int_equal(planner_parameter_bytes(&spec->model, unit), count * sizeof(float));
    }
}

static void test_gpt2(void **state)
{
    (void)state;
    struct job_spec spec = {.model = {.family = "gpt2",
                                      .layers = 12,
                                      .width = 768,
                                      .heads = 12,
                                      .context = 1024,
                                      .vocab = 50257,
                                      .tied = true}};
    compare_units(&spec);
    spec.model.tied = false;
    compare_units(&spec);
}

/* Return the sizes of Llama 3.2 1B. */
static struct job_spec llama_1b(void)
{
    return (struct job_spec){.model = {.family = "llama",
                                       .layers = 16,
                                       .width = 2048,
                                       .heads = 32,
                                       .kv_heads = 8,
                                       .head_width = 64,
                                       .hidden = 8192,
                                       .context = 2048,
                                       .vocab = 128256,
                                       .tied = true,
                                       .rope_theta = 500000,
                                       .norm_epsilon = 1e-5}};
}

static void test_llama(void **state)
{
    (void)state;
    struct job_spec spec = llama_1b();
    compare_units(&spec);
    spec.model.qkv_bias = true;
    compare_units(&spec);
    spec.model.qkv_bias = false;
    spec.model.qk_norm = true;
    compare_units(&spec);
}

/* Of the pipelines that are compared. */
static unsigned stages = 2;

/* Compare planned and taken memory of all stages with @replicas of two lanes each, with nothing
 * deferred and with as much as can be. */
static void compare_frozen(const struct job_spec *job, enum job_precision precision, bool gpu,
                           enum plan_recompute recompute, unsigned replicas, unsigned frozen_layers)
{
    struct planner_unit units[STEP_RECORD_UNITS_MAX];
    const struct slot_rates rates = slot_rates(gpu, precision);
    struct job_spec spec = *job;
    struct kernel kernel = *kernel_cpu();
    struct kernel_device *device;
    struct state *state;
    struct error error = {0};
    struct plan *plan = plan_new();

    spec.train.lanes = 2 * replicas;
    spec.train.micro_batches_per_lane = 4;
    spec.train.micro_batch = 4;
    kernel.activation_size = rates.activation_size;
    assert_int_equal(kernel.open(&(struct kernel_options){.thread_count = 1}, &device, &error), 0);
    assert_int_equal(state_new(&spec, &kernel, device, &state, &error), 0);
    assert_non_null(plan);
    plan->layout.stage_count = stages;
    plan->layout.replica_count = replicas;
    plan->layout.worker_count = stages * replicas;
    plan->layout.recompute = recompute;
    plan->layout.frozen_layers = frozen_layers;
    plan->layout.workers = calloc(plan->layout.worker_count, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(stages + 1, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(replicas + 1, sizeof(unsigned));
    for (unsigned stage = 1; stage <= stages; stage++)
        plan->layout.stage_first_unit[stage] = stage * state->unit_count / stages;
    for (unsigned replica = 0; replica <= replicas; replica++)
        plan->layout.replica_first_lane[replica] = 2 * replica;
    unsigned sums = sums_room(spec.train.lanes, replicas, plan->layout.replica_first_lane);
    assert_int_equal(sums, sums_room_even(spec.train.lanes, replicas));
    planner_units(&spec.model, &spec.train, frozen_layers, &rates, units);
    planner_thaw(units, &spec, frozen_layers);
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        units[unit].link_bytes = 0; /* messages of links are the process's, not the device's */
    unsigned runs = recompute == PLAN_RECOMPUTE_FULL ? 1 : 2;
    for (unsigned i = 0; i < stages * runs; i++) {
        unsigned rank = i % stages, deferred = plan->layout.deferred = i / stages * (stages - 1);
        const struct memory_need need = memory_need(state, &plan->layout, rank, true);
        double taken = (double)need.state_bytes + (double)memory_arena_bytes(&need);
        double planned = (double)layout_stage_bytes(
            units, plan->layout.stage_first_unit, stages, rank,
            gradient_room(buffers_even(spec.train.lanes, 0, replicas), sums), recompute, deferred);
        if (planned < 0.995 * taken || planned > 1.08 * taken)
            fail_msg(
                "rank %u of %u, %u frozen layers, %u deferred: %.1f MiB planned, %.1f MiB taken",
                rank, stages, frozen_layers, deferred, planned / (1 << 20), taken / (1 << 20));
    }
    plan_free(plan);
    state_free(state);
    kernel.close(device);
}

static void compare_stages(const struct job_spec *job, enum job_precision precision, bool gpu,
                           enum plan_recompute recompute, unsigned replicas)
{
    compare_frozen(job, precision, gpu, recompute, replicas, 0);
}

/* Long contexts have a workspace that the libraries' share of a GPU's memory has no room for. */
static void test_the_workspace_of_attention(void **state)
{
    static const struct {
        unsigned heads, context;
    } cases[] = {{25, 1024}, {32, 2048}, {25, 4096}, {32, 4096}, {16, 16384}, {128, 1 << 20}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct job_model model = {.heads = cases[i].heads, .context = cases[i].context};
        size_t taken = kernel_attention_workspace(cases[i].heads, cases[i].context);
        assert_int_equal(KERNEL_ATTENTION_FREE_BYTES + planner_workspace_bytes(&model, 2), taken);
        assert_int_equal(planner_workspace_bytes(&model, sizeof(float)), 0);
    }
    assert_int_equal(kernel_attention_workspace(25, 1024), 256 << 20);
    assert_int_equal(kernel_attention_workspace(25, 4096), 2 * 25 * 4096 * 4096);
}

/* The first stage has eight layers, of which none, some and all are frozen; then the second's. */
static void test_frozen_layers_share_activations(void **state)
{
    (void)state;
    struct job_spec spec = llama_1b();
    spec.model.tied = false;
    for (unsigned frozen_layers = 0; frozen_layers <= 16; frozen_layers++)
        for (unsigned level = 0; level < PLAN_RECOMPUTES; level++) {
            enum plan_recompute recompute = (enum plan_recompute)level;
            compare_frozen(&spec, JOB_PRECISION_TF32, true, recompute, 1, frozen_layers);
            compare_frozen(&spec, JOB_PRECISION_BF16, true, recompute, 1, frozen_layers);
            compare_frozen(&spec, JOB_PRECISION_F32, false, recompute, 1, frozen_layers);
        }
}

/* They keep the memory of layers that train. */
static void test_so_do_layers_that_may_thaw(void **state)
{
    (void)state;
    struct job_spec spec = llama_1b();
    spec.elastic.freeze.thaw = 0.1;
    for (unsigned tied = 0; tied < 2; tied++)
        for (unsigned frozen_layers = 0; frozen_layers <= 16; frozen_layers += 4) {
            spec.model.tied = tied;
            compare_frozen(&spec, JOB_PRECISION_BF16, true, PLAN_RECOMPUTE_NONE, 2, frozen_layers);
            compare_frozen(&spec, JOB_PRECISION_F32, false, PLAN_RECOMPUTE_FULL, 1, frozen_layers);
        }
}

/* Many micro-batches are in flight, and weights of many wait. */
static void test_deep_pipelines_are_planned_as_well(void **state)
{
    (void)state;
    struct job_spec spec = llama_1b();
    spec.model.tied = false;
    stages = 8;
    for (unsigned level = 0; level < PLAN_RECOMPUTES; level++)
        for (unsigned frozen_layers = 0; frozen_layers < 16; frozen_layers++) {
            enum plan_recompute recompute = (enum plan_recompute)level;
            compare_frozen(&spec, JOB_PRECISION_BF16, true, recompute, 1, frozen_layers);
            compare_frozen(&spec, JOB_PRECISION_F32, false, recompute, 1, frozen_layers);
        }
    stages = 2;
}

static void test_memory_is_planned_as_it_is_taken(void **state)
{
    (void)state;
    struct job_spec spec = llama_1b();
    compare_stages(&spec, JOB_PRECISION_BF16, true, PLAN_RECOMPUTE_NONE, 1);
    compare_stages(&spec, JOB_PRECISION_F32, false, PLAN_RECOMPUTE_FULL, 1);
    spec.model.tied = false;
    for (unsigned level = 0; level < PLAN_RECOMPUTES; level++) {
        compare_stages(&spec, JOB_PRECISION_BF16, true, (enum plan_recompute)level, 1);
        compare_stages(&spec, JOB_PRECISION_TF32, true, (enum plan_recompute)level, 1);
        compare_stages(&spec, JOB_PRECISION_BF16, false, (enum plan_recompute)level, 1);
    }
    spec.model.qk_norm = true;
    compare_stages(&spec, JOB_PRECISION_BF16, true, PLAN_RECOMPUTE_FULL, 1);
}

/*
 * With two replicas the sums take half of every trained parameter, with eight nearly all, with
 * three depending on their subtrees.
 */
static void test_so_is_the_room_for_sums(void **state)
{
    (void)state;
    struct job_spec spec = llama_1b();
    spec.model.tied = false;
    for (unsigned replicas = 2; replicas <= 8; replicas++)
        compare_stages(&spec, JOB_PRECISION_BF16, true, PLAN_RECOMPUTE_FULL, replicas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama),
        cmocka_unit_test(test_memory_is_planned_as_it_is_taken),
        cmocka_unit_test(test_deep_pipelines_are_planned_as_well),
        cmocka_unit_test(test_frozen_layers_share_activations),
        cmocka_unit_test(test_so_do_layers_that_may_thaw),
        cmocka_unit_test(test_the_workspace_of_attention),
        cmocka_unit_test(test_so_is_the_room_for_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
