/* Tests of the planner against an exhaustive search, and of its placements. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "elastic/job/job_spec.h"
#include "elastic/plan/commit_tree.h"
#include "elastic/plan/lanes.h"
#include "elastic/plan/pipeline_schedule.h"
#include "elastic/plan/plan.h"
#include "elastic/planner/partition.h"
#include "elastic/planner/pipeline_model.h"
#include "elastic/planner/pipeline_timeline.h"
#include "elastic/planner/planner.h"
#include "elastic/planner/planner_time.h"

#define UNITS     14
#define SLOTS_MAX 64

static uint64_t random_state = 11;

static unsigned next_random(unsigned below)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(random_state >> 33) % below;
}

struct world {
    struct planner_unit units[UNITS];
    struct planner_slot slots[SLOTS_MAX];
    struct planner_input input;
    struct plan *plan;
    struct error error;
};

static void add_slots(struct world *world, const char *node, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct planner_slot *slot = &world->slots[world->input.slot_count++];
        snprintf(slot->node, sizeof(slot->node), "%s", node);
        snprintf(slot->address, sizeof(slot->address), "127.0.0.1:%u", world->input.slot_count);
        slot->slot = i;
        slot->speed = 1;
    }
}

static void world_init(struct world *world)
{
    memset(world, 0, sizeof(*world));
    for (unsigned u = 0; u < UNITS; u++)
        world->units[u] = (struct planner_unit){.forward_seconds = 0.01,
                                                .backward_seconds = 0.02,
                                                .parameter_bytes = 1 << 20,
                                                .activation_bytes = 1 << 18,
                                                .boundary_bytes = 1 << 16,
                                                .trained = true};
    world->input = (struct planner_input){.units = world->units,
                                          .unit_count = UNITS,
                                          .slots = world->slots,
                                          .devices_max = SLOTS_MAX,
                                          .lanes = 12,
                                          .micro_batches_per_lane = 2,
                                          .link_bytes_per_second = 1e9,
                                          .link_latency_seconds = 50e-6};
    world->plan = plan_new();
    assert_non_null(world->plan);
}

static void world_done(struct world *world)
{
    plan_free(world->plan);
}

static int run(struct world *world)
{
    return planner_run(&world->input, &world->plan->layout, NULL, NULL, &world->error);
}

/* List the operations of a stage in their order. */
static unsigned list_operations(const struct stage_cost *cost, unsigned ahead, unsigned count,
                                struct schedule_operation *list)
{
    enum schedule_kind backward = cost->deferred ? SCHEDULE_BACKWARD_INPUT : SCHEDULE_BACKWARD;
    unsigned length = 0, forward = 0, weight = 0;
    while (forward < (cost->has_backward ? MIN(ahead, count) : count))
        list[length++] = (struct schedule_operation){.micro_batch = forward++};
    for (unsigned m = 0; cost->has_backward && m < count; m++) {
        if (forward < count)
            list[length++] = (struct schedule_operation){.micro_batch = forward++};
        list[length++] = (struct schedule_operation){.kind = backward, .micro_batch = m};
        if (cost->deferred > 0 && m >= cost->deferred)
            list[length++] = (struct schedule_operation){.kind = SCHEDULE_BACKWARD_WEIGHT,
                                                         .micro_batch = weight++};
    }
    while (cost->has_backward && cost->deferred > 0 && weight < count)
        list[length++] =
            (struct schedule_operation){.kind = SCHEDULE_BACKWARD_WEIGHT, .micro_batch = weight++};
    return length;
}

#define COUNT_MAX 128

/*
 * Simulate the pipeline from the definition of the event recurrence, in the order of the real
 * schedule.
 */
static double naive_pipeline(const struct stage_cost *costs, unsigned stages, unsigned count)
{
    static double ended[UNITS][SCHEDULE_BACKWARD_WEIGHT + 1][COUNT_MAX];
    static struct schedule_operation lists[UNITS][3 * COUNT_MAX];
    unsigned done[UNITS] = {0}, lengths[UNITS], changed = 1;
    double free_at[UNITS] = {0}, end = 0;
    assert_in_range(count, 1, COUNT_MAX);
    for (unsigned s = 0; s < stages; s++) {
        lengths[s] = list_operations(&costs[s], stages - 1 - s, count, lists[s]);
        for (unsigned kind = 0; kind <= SCHEDULE_BACKWARD_WEIGHT; kind++)
            for (unsigned m = 0; m < count; m++)
                ended[s][kind][m] = NAN;
    }
    while (changed) {
        changed = 0;
        for (unsigned s = 0; s < stages; s++) {
            if (done[s] == lengths[s])
                continue;
            struct schedule_operation next = lists[s][done[s]];
            unsigned m = next.micro_batch;
            double ready = 0, takes = costs[s].weight;
            if (next.kind == SCHEDULE_FORWARD) {
                takes = costs[s].forward;
                if (s > 0)
                    ready = ended[s - 1][SCHEDULE_FORWARD][m] + costs[s - 1].transfer;
            } else if (next.kind != SCHEDULE_BACKWARD_WEIGHT) {
                takes = costs[s].backward;
                if (s + 1 < stages)
                    ready = ended[s + 1][costs[s + 1].deferred ? SCHEDULE_BACKWARD_INPUT
                                                               : SCHEDULE_BACKWARD][m] +
                            costs[s].transfer;
            }
            if (isnan(ready))
                continue;
            ended[s][next.kind][m] = free_at[s] = fmax(ready, free_at[s]) + takes;
            end = fmax(end, free_at[s]);
            done[s]++;
            changed = 1;
        }
    }
    return end;
}

/* Qi et al.: four stages, eight micro-batches, all operations alike. */
static void test_idle_time_is_that_of_the_paper(void **state)
{
    (void)state;
    for (unsigned deferred = 0; deferred <= 3; deferred += 3) {
        struct stage_cost costs[4];
        double seconds;
        for (unsigned s = 0; s < 4; s++) {
            costs[s] = (struct stage_cost){.forward = 1, .backward = 2, .has_backward = true};
            costs[s].deferred = MIN(s, deferred);
            if (costs[s].deferred > 0)
                costs[s].backward = costs[s].weight = 1;
        }
        assert_int_equal(pipeline_seconds(costs, 4, 8, &seconds), 0);
        assert_true(seconds == 3 * 8 + (deferred ? 3 : 9));
    }
}

/* Follow a timeline: the latest end, and the end of each stage's latest operation. */
struct seen {
    double end, stage_end[UNITS];
    unsigned operations;
};

static void see(void *context, const struct timeline_operation *operation)
{
    struct seen *seen = context;
    assert_true(operation->begin >= seen->stage_end[operation->stage]);
    seen->stage_end[operation->stage] = operation->end;
    seen->end = fmax(seen->end, operation->end);
    seen->operations++;
}

static void test_timeline_is_what_the_planner_predicts(void **state)
{
    (void)state;
    for (unsigned stages = 1; stages <= 8; stages++) {
        struct world world;
        struct seen seen = {0};
        struct stage_cost costs[UNITS];
        unsigned count;
        double seconds;
        world_init(&world);
        add_slots(&world, "a", stages);
        world.input.stages_wanted = stages;
        for (unsigned u = 0; u < UNITS; u++) {
            world.units[u].weight_seconds = 0.001 * next_random(21);
            world.units[u].trained = u >= UNITS / 3;
            world.units[u].backward_seconds *= world.units[u].trained;
            world.units[u].weight_seconds *= world.units[u].trained;
        }
        assert_int_equal(run(&world), 0);
        const struct plan_layout *layout = &world.plan->layout;
        assert_int_equal(layout->deferred, stages - 1);
        assert_int_equal(planner_stage_costs(&world.input, layout, costs, &count), 0);
        assert_int_equal(count, 24);
        assert_int_equal(pipeline_seconds(costs, stages, count, &seconds), 0);
        assert_int_equal(pipeline_timeline(&world.input, layout, 100, see, &seen, &count), 0);
        assert_true(fabs(seen.end - seconds) < 1e-12);
        assert_true(seen.operations >= 24 * stages);
        world_done(&world);
    }
}

static void test_simulation_is_the_recurrence_and_above_its_bound(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    for (unsigned round = 0; round < 300; round++) {
        unsigned frozen = next_random(UNITS), stages = 1 + next_random(8);
        for (unsigned u = 0; u < UNITS; u++) {
            world.units[u].forward_seconds = 0.001 * (1 + next_random(30));
            world.units[u].trained = u >= frozen;
            world.units[u].backward_seconds = u >= frozen ? 0.001 * (1 + next_random(60)) : 0;
            world.units[u].weight_seconds =
                world.units[u].backward_seconds * next_random(101) / 100.0;
        }
        world.input.link_latency_seconds = 0.001 * next_random(5);
        unsigned cuts[UNITS + 1] = {0};
        for (unsigned s = 1; s < stages; s++)
            cuts[s] = cuts[s - 1] + 1 + next_random(UNITS - stages + s - cuts[s - 1]);
        cuts[stages] = UNITS;
        unsigned lanes = 1 + next_random(12);
        struct layout_shape shape = {.stage_count = stages,
                                     .replica_count = 1,
                                     .micro_batches = 2 * lanes,
                                     .speed = 1,
                                     .slowest = 1,
                                     .deferred = next_random(stages)};
        struct stage_cost costs[UNITS];
        struct time_prediction time;
        stage_costs(&world.input, &shape, cuts, costs);
        assert_int_equal(time_predict(&world.input, &shape, costs, &time), 0);
        double naive = naive_pipeline(costs, stages, shape.micro_batches), seconds;
        assert_int_equal(pipeline_seconds(costs, stages, shape.micro_batches, &seconds), 0);
        assert_true(fabs(seconds - naive) < 1e-12);
        size_t trained = 0;
        unsigned levels = 0;
        for (unsigned s = 0; s < stages; s++)
            trained = costs[s].trained_bytes > trained ? costs[s].trained_bytes : trained;
        for (unsigned reach = 1; reach < stages; reach *= COMMIT_TREE_FAN)
            levels++;
        naive += (double)trained / 1.5e9 + 2 * levels * world.input.link_latency_seconds;
        assert_true(fabs(time.step_seconds - naive) < 1e-12);
        assert_true(time_bound(&world.input, &shape, costs) <= time.step_seconds);
        assert_true(time.bubble_share >= -1e-12 && time.bubble_share < 1);
    }
    world_done(&world);
}

/*
 * Return the shape of the best slots, of which at most one is slow: try every number of lanes for
 * the slow replica; the other replicas share the rest evenly.
 */
static struct layout_shape naive_shape(const struct planner_input *input, unsigned k,
                                       unsigned replicas)
{
    double speeds[SLOTS_MAX], fill = (double)(k - 1) / input->micro_batches_per_lane;
    for (unsigned i = 0; i < input->slot_count; i++) {
        unsigned place = i;
        for (; place > 0 && speeds[place - 1] < input->slots[i].speed; place--)
            speeds[place] = speeds[place - 1];
        speeds[place] = input->slots[i].speed;
    }
    double slow = speeds[k * replicas - 1], best = INFINITY;
    unsigned even = (input->lanes + replicas - 1) / replicas;
    struct layout_shape shape = {.stage_count = k,
                                 .replica_count = replicas,
                                 .micro_batches = even * input->micro_batches_per_lane,
                                 .speed = slow,
                                 .slowest = slow,
                                 .deferred = k - 1};
    for (unsigned own = 1; replicas > 1 && slow < speeds[0] && own + replicas - 1 <= input->lanes;
         own++) {
        unsigned others = (input->lanes - own + replicas - 2) / (replicas - 1);
        double slow_time = (own + fill) / slow, time = fmax(slow_time, (others + fill) / speeds[0]);
        if (time >= best)
            continue;
        best = time;
        shape.micro_batches = (slow_time < time ? others : own) * input->micro_batches_per_lane;
        shape.speed = slow_time < time ? speeds[0] : slow;
    }
    return shape;
}

/* Return the best step over all K and R, each simulated. */
static double naive_best(const struct world *world)
{
    const struct planner_input *input = &world->input;
    double costs[UNITS], best = INFINITY;
    unsigned devices = MIN(input->slot_count, input->devices_max);
    for (unsigned u = 0; u < UNITS; u++)
        costs[u] = input->units[u].forward_seconds + input->units[u].backward_seconds;
    struct partition_table *table;
    assert_int_equal(partition_table_new(costs, UNITS, UNITS, 0, NULL, NULL, &table), 0);
    for (unsigned k = 1; k <= UNITS; k++)
        for (unsigned replicas = 1; replicas <= input->lanes && k * replicas <= devices;
             replicas++) {
            unsigned cuts[UNITS + 1];
            struct stage_cost stage[UNITS];
            struct time_prediction time;
            partition_table_cuts(table, k, cuts);
            struct layout_shape shape = naive_shape(input, k, replicas);
            stage_costs(input, &shape, cuts, stage);
            assert_int_equal(time_predict(input, &shape, stage, &time), 0);
            best = fmin(best, time.step_seconds);
        }
    partition_table_free(table);
    return best;
}

static void test_finds_the_best_of_all_layouts(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        struct world world;
        unsigned frozen = next_random(2 * UNITS), slow = next_random(40);
        world_init(&world);
        add_slots(&world, "a", 1 + next_random(30));
        world.input.lanes = 1 + next_random(24);
        world.input.devices_max = 1 + next_random(30);
        world.input.link_bytes_per_second = 1e7 * (1 + next_random(1000));
        for (unsigned i = 0; i < world.input.slot_count; i++)
            world.slots[i].speed = i == slow ? 1 / (1.0 + next_random(5)) : 1;
        for (unsigned u = 0; u < UNITS; u++) {
            world.units[u].forward_seconds = 0.001 * (1 + next_random(30));
            world.units[u].trained = frozen >= UNITS || u >= frozen;
            world.units[u].backward_seconds *= world.units[u].trained;
            world.units[u].weight_seconds = world.units[u].backward_seconds / 2;
        }
        assert_int_equal(run(&world), 0);
        assert_true(world.plan->layout.predicted_step_seconds == naive_best(&world));
        double again;
        assert_int_equal(planner_predict(&world.input, &world.plan->layout, &again), 0);
        assert_true(again == world.plan->layout.predicted_step_seconds);
        world_done(&world);
    }
}

static void test_more_slots_are_never_slower(void **state)
{
    (void)state;
    double before = INFINITY;
    for (unsigned slots = 1; slots <= 24; slots++) {
        struct world world;
        world_init(&world);
        add_slots(&world, "a", slots);
        assert_int_equal(run(&world), 0);
        assert_true(world.plan->layout.predicted_step_seconds <= before);
        before = world.plan->layout.predicted_step_seconds;
        world_done(&world);
    }
}

static void test_pins_are_kept_or_refused(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 6);
    world.input.stages_wanted = 3;
    world.input.replicas_wanted = 2;
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.stage_count, 3);
    assert_int_equal(world.plan->layout.replica_count, 2);
    world.input.replicas_wanted = 3;
    assert_int_equal(run(&world), -ENOSPC);
    assert_non_null(strstr(world.error.text, "3 stages x 3 replicas"));
    world.input.stages_wanted = 15;
    assert_int_equal(run(&world), -ENOSPC);
    world.input.slot_count = 0;
    assert_int_equal(run(&world), -ENOSPC);
    world_done(&world);
}

/* Return the slot of @rank, by name. */
static const struct planner_slot *slot_of(const struct world *world, unsigned rank)
{
    for (unsigned i = 0; i < world->input.slot_count; i++)
        if (world->slots[i].slot == world->plan->layout.workers[rank].slot &&
            strcmp(world->slots[i].node, world->plan->layout.workers[rank].node) == 0)
            return &world->slots[i];
    fail();
    return NULL;
}

static void every_rank_has_its_own_slot(const struct world *world)
{
    bool used[SLOTS_MAX] = {false};
    for (unsigned rank = 0; rank < world->plan->layout.worker_count; rank++) {
        size_t index = (size_t)(slot_of(world, rank) - world->slots);
        assert_false(used[index]);
        used[index] = true;
    }
}

static void test_replicas_stay_on_one_node(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 3);
    add_slots(&world, "b", 5);
    add_slots(&world, "c", 4);
    world.input.stages_wanted = 3;
    world.input.replicas_wanted = 4;
    assert_int_equal(run(&world), 0);
    every_rank_has_its_own_slot(&world);
    unsigned spanning = 0;
    for (unsigned replica = 0; replica < 4; replica++)
        for (unsigned stage = 1; stage < 3; stage++)
            spanning += strcmp(slot_of(&world, replica * 3)->node,
                               slot_of(&world, replica * 3 + stage)->node) != 0;
    assert_int_equal(spanning, 1); /* b's two other slots and c's one: one cut */
    world_done(&world);
}

static void test_workers_keep_the_stage_they_hold(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 3);
    add_slots(&world, "b", 3);
    world.input.stages_wanted = 3;
    world.input.replicas_wanted = 2;
    assert_int_equal(run(&world), 0);
    /* The same layout again, with the stages held by slots in another order. */
    for (unsigned i = 0; i < 6; i++) {
        unsigned stage = (i * 2 + i / 3) % 3;
        world.slots[i].held_first_unit = world.plan->layout.stage_first_unit[stage];
        world.slots[i].held_unit_count =
            world.plan->layout.stage_first_unit[stage + 1] - world.slots[i].held_first_unit;
    }
    assert_int_equal(run(&world), 0);
    every_rank_has_its_own_slot(&world);
    for (unsigned rank = 0; rank < 6; rank++)
        assert_int_equal(slot_of(&world, rank)->held_first_unit,
                         world.plan->layout.stage_first_unit[rank % 3]);
    /* Six nodes have one slot each: only state decides. */
    for (unsigned i = 0; i < 6; i++)
        snprintf(world.slots[i].node, sizeof(world.slots[i].node), "n%u", i);
    assert_int_equal(run(&world), 0);
    for (unsigned rank = 0; rank < 6; rank++)
        assert_int_equal(slot_of(&world, rank)->held_first_unit,
                         world.plan->layout.stage_first_unit[rank % 3]);
    world_done(&world);
}

static void test_slots_with_state_come_before_empty_ones(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 2);
    add_slots(&world, "b", 2);
    world.input.devices_max = 2;
    world.input.stages_wanted = 2;
    for (unsigned i = 2; i < 4; i++) {
        world.slots[i].held_first_unit = i == 2 ? 7 : 0;
        world.slots[i].held_unit_count = 7;
    }
    assert_int_equal(run(&world), 0);
    assert_string_equal(world.plan->layout.workers[0].node, "b");
    assert_int_equal(world.plan->layout.workers[0].slot, 1);
    assert_int_equal(world.plan->layout.workers[1].slot, 0);
    world_done(&world);
}

static void test_memory_limits_bend_the_partition_or_forbid_it(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 4);
    world.input.stages_wanted = 2;
    world.input.replicas_wanted = 1;
    world.units[0].parameter_bytes = 10 << 20; /* large, but in time like the others */
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.stage_first_unit[1], 7);
    for (unsigned i = 0; i < 4; i++)
        world.slots[i].memory_bytes = (size_t)110 << 20;
    assert_int_equal(run(&world), 0);
    unsigned cut = world.plan->layout.stage_first_unit[1];
    assert_in_range(cut, 1, 6);
    unsigned room = gradient_room(buffers_even(12, 0, 1), 0);
    assert_true(planner_stage_bytes(world.units, 0, cut, 2, room, PLAN_RECOMPUTE_NONE, 0) <=
                (size_t)110 << 20);
    assert_true(planner_stage_bytes(world.units, cut, UNITS, 1, room, PLAN_RECOMPUTE_NONE, 0) <=
                (size_t)110 << 20);
    for (unsigned i = 0; i < 4; i++)
        world.slots[i].memory_bytes = (size_t)20 << 20;
    assert_int_equal(run(&world), -ENOSPC);
    assert_non_null(strstr(world.error.text, "MiB"));
    world_done(&world);
}

/*
 * One slot is half as fast: of twelve lanes it gets four and the other slot eight, and both finish
 * together.
 */
static void test_a_slow_slot_gets_fewer_lanes_when_that_is_faster(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 2);
    world.input.lanes = 12;
    world.slots[0].speed = 0.5;
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.stage_count, 1);
    assert_int_equal(world.plan->layout.replica_count, 2);
    const unsigned *first = world.plan->layout.replica_first_lane;
    int rank = plan_layout_find(&world.plan->layout, "a", 0);
    assert_int_equal(first[rank + 1] - first[rank], 4);
    double predicted;
    assert_int_equal(planner_predict(&world.input, &world.plan->layout, &predicted), 0);
    assert_true(predicted == world.plan->layout.predicted_step_seconds);
    world_done(&world);
}

/* Return the bytes that one slot needs for all units with the activations of @recompute. */
static size_t whole_model_bytes(const struct world *world, enum plan_recompute recompute)
{
    return planner_stage_bytes(world->input.units, 0, UNITS, 1,
                               gradient_room(buffers_even(12, 0, 1), 0), recompute, 0);
}

static void test_short_of_memory_activations_are_computed_again(void **state)
{
    (void)state;
    struct job_spec spec = {
        .model = {.layers = 6, .width = 32, .heads = 4, .context = 128, .vocab = 256},
        .train = {.lanes = 12, .micro_batch = 8, .micro_batches_per_lane = 1}};
    struct planner_unit units[UNITS];
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 1);
    world.input.units = units;
    const struct slot_rates cpu = slot_rates(false, JOB_PRECISION_F32);
    planner_units(&spec.model, &spec.train, 0, &cpu, units);
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.recompute, PLAN_RECOMPUTE_NONE);
    double seconds = world.plan->layout.predicted_step_seconds;
    for (unsigned level = PLAN_RECOMPUTE_ATTENTION; level < PLAN_RECOMPUTES; level++) {
        world.slots[0].memory_bytes =
            whole_model_bytes(&world, (enum plan_recompute)(level - 1)) - 1;
        assert_int_equal(run(&world), 0);
        assert_int_equal(world.plan->layout.recompute, level);
        assert_true(world.plan->layout.predicted_step_seconds > seconds);
        seconds = world.plan->layout.predicted_step_seconds;
    }
    world.slots[0].memory_bytes = whole_model_bytes(&world, PLAN_RECOMPUTE_FULL) - 1;
    assert_int_equal(run(&world), -ENOSPC);
    world_done(&world);
}

/*
 * Activations take half: a budget that makes a CPU slot recompute still fits a GPU with bf16. If
 * some slots are not GPUs, the plan uses the sizes of CPU slots.
 */
static void test_gpus_are_planned_in_their_own_precision(void **state)
{
    (void)state;
    struct job_spec spec = {
        .model = {.layers = 6, .width = 32, .heads = 4, .context = 128, .vocab = 256},
        .train = {.lanes = 12, .micro_batch = 8, .micro_batches_per_lane = 1}};
    struct planner_unit units[UNITS];
    struct planner_input input;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 1);
    add_slots(&world, "b", 1);
    planner_job(&spec, 0, world.slots, 2, units, &input);
    double cpu_seconds = units[1].forward_seconds;
    world.slots[0].gpu = true;
    planner_job(&spec, 0, world.slots, 2, units, &input);
    assert_true(units[1].forward_seconds == cpu_seconds);
    world.input.units = units;
    world.slots[0].memory_bytes = world.slots[1].memory_bytes =
        whole_model_bytes(&world, PLAN_RECOMPUTE_NONE) - 1;
    world.input.stages_wanted = world.input.replicas_wanted = 1;
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.recompute, PLAN_RECOMPUTE_ATTENTION);
    world.slots[1].gpu = true;
    planner_job(&spec, 0, world.slots, 2, units, &input);
    assert_true(units[1].forward_seconds < cpu_seconds / 1000);
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.recompute, PLAN_RECOMPUTE_NONE);
    world_done(&world);
}

static void test_slow_slots_are_left_out_when_that_is_faster(void **state)
{
    (void)state;
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 2);
    add_slots(&world, "b", 1);
    world.slots[0].speed = 0.1;
    assert_int_equal(run(&world), 0);
    assert_int_equal(world.plan->layout.worker_count, 2);
    assert_int_equal(plan_layout_find(&world.plan->layout, "a", 0), -1);
    world_done(&world);
}

static void test_freezing_shrinks_the_pipeline_and_forks_replicas(void **state)
{
    (void)state;
    struct job_spec spec = {
        .model = {.layers = 6, .width = 128, .heads = 4, .context = 128, .vocab = 256},
        .train = {.lanes = 12, .micro_batch = 4, .micro_batches_per_lane = 1}};
    struct planner_unit units[UNITS];
    struct world world;
    world_init(&world);
    add_slots(&world, "a", 2);
    add_slots(&world, "b", 2);
    add_slots(&world, "c", 2);
    world.input.units = units;
    const struct slot_rates cpu = slot_rates(false, JOB_PRECISION_F32);
    planner_units(&spec.model, &spec.train, 0, &cpu, units);
    assert_true(units[0].trained && units[1].backward_seconds > 0);
    assert_int_equal(run(&world), 0);
    double whole = world.plan->layout.predicted_step_seconds;
    planner_units(&spec.model, &spec.train, 4, &cpu, units);
    assert_false(units[8].trained);
    assert_true(units[9].trained);
    assert_int_equal(run(&world), 0);
    assert_true(world.plan->layout.predicted_step_seconds < 0.75 * whole);
    world_done(&world);
}

static void test_choices_are_in_order_and_true(void **state)
{
    (void)state;
    struct world world;
    struct planner_choice choices[PLANNER_CHOICES_MAX];
    unsigned count = 0;
    world_init(&world);
    add_slots(&world, "a", 6);
    for (unsigned i = 0; i < 6; i++)
        world.slots[i].memory_bytes = (size_t)64 << 20;
    assert_int_equal(planner_run(&world.input, &world.plan->layout, choices, &count, &world.error),
                     0);
    assert_int_equal(count, 14); /* K * R <= 6: 6 + 3 + 2 + 1 + 1 + 1 */
    assert_true(choices[0].step_seconds == world.plan->layout.predicted_step_seconds);
    for (unsigned i = 1; i < count; i++) {
        assert_true(choices[i - 1].fits >= choices[i].fits);
        if (choices[i - 1].fits == choices[i].fits)
            assert_true(choices[i - 1].step_seconds <= choices[i].step_seconds);
    }
    assert_false(choices[count - 1].fits);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_time_is_that_of_the_paper),
        cmocka_unit_test(test_timeline_is_what_the_planner_predicts),
        cmocka_unit_test(test_simulation_is_the_recurrence_and_above_its_bound),
        cmocka_unit_test(test_finds_the_best_of_all_layouts),
        cmocka_unit_test(test_more_slots_are_never_slower),
        cmocka_unit_test(test_pins_are_kept_or_refused),
        cmocka_unit_test(test_replicas_stay_on_one_node),
        cmocka_unit_test(test_workers_keep_the_stage_they_hold),
        cmocka_unit_test(test_slots_with_state_come_before_empty_ones),
        cmocka_unit_test(test_memory_limits_bend_the_partition_or_forbid_it),
        cmocka_unit_test(test_a_slow_slot_gets_fewer_lanes_when_that_is_faster),
        cmocka_unit_test(test_short_of_memory_activations_are_computed_again),
        cmocka_unit_test(test_gpus_are_planned_in_their_own_precision),
        cmocka_unit_test(test_slow_slots_are_left_out_when_that_is_faster),
        cmocka_unit_test(test_freezing_shrinks_the_pipeline_and_forks_replicas),
        cmocka_unit_test(test_choices_are_in_order_and_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
