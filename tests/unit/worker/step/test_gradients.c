/*
 * Tests of the stack of gradient buffers against the naive way: keep every lane's gradient, and add
 * the lanes in the order of the tree. All lane counts to 13, all ranges: the same subtrees with the
 * same bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worker/tiny_state.h"

#include "base/philox.h"
#include "elastic/plan/lanes.h"
#include "elastic/planner/planner_time.h"
#include "protocol/step_division.h"
#include "worker/step/gradients.h"

#define LANES_MAX     13
#define MICRO_BATCHES 3
#define ELEMENTS_MAX  1024

/* Make magnitudes far apart, so that almost every other order of additions gives other bits. */
static void make_gradient(unsigned unit, unsigned lane, unsigned micro_batch, float *values,
                          size_t count)
{
    struct philox_key key = philox_key_make(3, unit);

    for (size_t i = 0; i < count; i++) {
        uint32_t words[4];
        philox_block(key, i, lane * 100 + micro_batch, words);
        values[i] = ((float)(words[0] >> 8) / 8388608.0f - 1.0f) * (float)(1u << (words[1] % 24));
    }
}

static void naive_lane(unsigned unit, unsigned lane, float *sum, size_t count)
{
    float values[ELEMENTS_MAX];

    memset(sum, 0, count * sizeof(float));
    for (unsigned m = 0; m < MICRO_BATCHES; m++) {
        make_gradient(unit, lane, m, values, count);
        for (size_t i = 0; i < count; i++)
            sum[i] += values[i];
    }
}

static void naive_sum(unsigned unit, struct lane_tree_span span, float *sum, size_t count)
{
    struct lane_tree_span left, right;
    float other[ELEMENTS_MAX];

    if (span.count == 1) {
        naive_lane(unit, span.first, sum, count);
        return;
    }
    lane_tree_children(span, &left, &right);
    naive_sum(unit, left, sum, count);
    naive_sum(unit, right, other, count);
    for (size_t i = 0; i < count; i++)
        sum[i] += other[i];
}

/* All lanes of @range are replica 1's. */
static struct gradients *make_gradients(struct state *state, unsigned first_unit,
                                        unsigned unit_count, unsigned lanes,
                                        struct lane_tree_span range)
{
    struct step_division division = {.lanes = lanes, .micro_batches = MICRO_BATCHES, .replicas = 2};
    const struct gradients_options options = {.state = state,
                                              .first_unit = first_unit,
                                              .unit_count = unit_count,
                                              .replica = 1,
                                              .division = &division};
    struct gradients *gradients = NULL;
    struct error error = {0};

    lane_tree_own(division.owners, range, 1);
    assert_int_equal(gradients_new(&options, &gradients, &error), 0);
    return gradients;
}

static void run_micro_batch(struct gradients *gradients, unsigned unit, unsigned lane,
                            unsigned index, size_t count)
{
    float *buffer = gradients_buffer(gradients, unit, lane, index), values[ELEMENTS_MAX];

    make_gradient(unit, lane, index, values, count);
    for (size_t i = 0; i < count; i++)
        buffer[i] += values[i];
    gradients_added(gradients, unit, lane, index);
}

/*
 * Process one unit as the pipeline does: lane after lane, each lane accumulates its micro-batches.
 */
static void run_lanes(struct gradients *gradients, unsigned unit, struct lane_tree_span lanes,
                      size_t count)
{
    for (unsigned lane = lanes.first; lane < lanes.first + lanes.count; lane++)
        for (unsigned m = 0; m < MICRO_BATCHES; m++)
            run_micro_batch(gradients, unit, lane, m, count);
}

static void check_range(struct state *state, unsigned lanes, struct lane_tree_span range)
{
    const unsigned first_unit = 2, unit_count = 2;
    struct lane_tree_span subtrees[LANE_TREE_SUBTREES_MAX];
    struct gradients *gradients = make_gradients(state, first_unit, unit_count, lanes, range);
    float expected[ELEMENTS_MAX];

    for (unsigned again = 0; again < 2; again++) { /* a second step has no remainder of the first */
        gradients_begin(gradients);
        for (unsigned unit = first_unit; unit < first_unit + unit_count; unit++) {
            size_t count = state->units[unit].layout.count;
            assert_true(count <= ELEMENTS_MAX);
            run_lanes(gradients, unit, range, count);
            uint16_t owners[LANE_TREE_LANES_MAX] = {0};
            lane_tree_own(owners, range, 1);
            unsigned subtree_count =
                lane_tree_subtrees(lanes, owners, 1, subtrees, LANE_TREE_SUBTREES_MAX);
            float *const *sums = gradients_subtrees(gradients, unit);
            for (unsigned i = 0; i < subtree_count; i++) {
                naive_sum(unit, subtrees[i], expected, count);
                assert_memory_equal(sums[i], expected, count * sizeof(float));
            }
            assert_ptr_equal(gradients_reduced(gradients)[unit - first_unit], sums[0]);
        }
    }
    gradients_free(gradients);
}

static void test_all_ranges(void **state)
{
    struct tiny_state tiny;

    (void)state;
    tiny_state_init(&tiny, true);
    for (unsigned lanes = 1; lanes <= LANES_MAX; lanes++)
        for (unsigned first = 0; first < lanes; first++)
            for (unsigned count = 1; first + count <= lanes; count++)
                check_range(tiny.state, lanes, (struct lane_tree_span){first, count});
    tiny_state_done(&tiny);
}

/* Lanes of two units interleave in a pipeline: each unit has its own stack. */
static void test_units_do_not_mix(void **state)
{
    const struct lane_tree_span all = {0, 5};
    struct gradients *gradients;
    struct tiny_state tiny;
    float expected[ELEMENTS_MAX];

    (void)state;
    tiny_state_init(&tiny, true);
    gradients = make_gradients(tiny.state, 2, 2, 5, all);
    for (unsigned lane = 0; lane < 5; lane++)
        for (unsigned m = 0; m < MICRO_BATCHES; m++)
            for (unsigned unit = 4; unit-- > 2;)
                run_micro_batch(gradients, unit, lane, m, tiny.state->units[unit].layout.count);
    for (unsigned unit = 2; unit < 4; unit++) {
        size_t count = tiny.state->units[unit].layout.count;
        naive_sum(unit, all, expected, count);
        assert_memory_equal(gradients_subtrees(gradients, unit)[0], expected,
                            count * sizeof(float));
    }
    gradients_free(gradients);
    tiny_state_done(&tiny);
}

/* Frozen units have no gradient, so they take no memory. */
static void test_frozen_units_take_nothing(void **state)
{
    struct gradients *gradients;
    struct tiny_state tiny;

    (void)state;
    tiny_state_init(&tiny, true);
    tiny.state->freeze.frozen_layers = 1; /* units 0, 1 and 2 */
    gradients = make_gradients(tiny.state, 1, 4, 8, (struct lane_tree_span){0, 8});
    assert_null(gradients_reduced(gradients)[0]);
    assert_null(gradients_reduced(gradients)[1]);
    assert_non_null(gradients_reduced(gradients)[2]);
    assert_non_null(gradients_reduced(gradients)[3]);
    gradients_free(gradients);
    gradients_free(NULL);
    tiny_state_done(&tiny);
}

/* ---- a step that is interrupted ---- */

#define REPLICAS_MAX 4

/* One worker of each replica, whose stage is all four units. */
struct interrupted {
    struct tiny_state tiny[REPLICAS_MAX];
    struct gradients *gradients[REPLICAS_MAX];
    struct step_division division;
    unsigned replicas;
    bool arrived[REPLICAS_MAX][4]; /* per unit: the head of the lane that a replica shares */
};

static uint32_t draw(uint64_t seed, uint64_t turn, unsigned limit)
{
    uint32_t words[4];
    philox_block(philox_key_make(seed, 9), turn, 0, words);
    return words[0] % limit;
}

static void list_facts(struct gradients *gradients, unsigned lanes, struct lane_fact *facts)
{
    struct lane_sum sums[GRADIENTS_SUMS_MAX];

    for (unsigned lane = 0; lane < lanes; lane++) {
        facts[lane] = (struct lane_fact){.micro_batches = MICRO_BATCHES};
        for (unsigned unit = 2; unit < 4; unit++) {
            unsigned count = gradients_sums(gradients, unit, sums), has = 0;
            for (unsigned i = 0; i < count; i++) {
                if (lane < sums[i].span.first || lane >= sums[i].span.first + sums[i].span.count)
                    continue;
                has = sums[i].micro_batches;
                if (sums[i].span.count > facts[lane].span.count)
                    facts[lane].span = sums[i].span;
            }
            facts[lane].micro_batches = MIN(facts[lane].micro_batches, has);
            facts[lane].furthest = MAX(facts[lane].furthest, has);
        }
    }
}

/* Return the lane whose head @replica gets; lanes: none. */
static unsigned shared_lane(const struct step_division *division, unsigned replica)
{
    unsigned lane = 0;

    while (lane < division->lanes && (division->owners[lane] != replica || !division->heads[lane]))
        lane++;
    return lane;
}

/* Heads that have not arrived are forgotten. */
static void close_relays(struct interrupted *step)
{
    for (unsigned replica = 0; replica < step->replicas; replica++) {
        unsigned lane = shared_lane(&step->division, replica);
        for (unsigned unit = 2; unit < 4; unit++)
            if (lane < step->division.lanes && !step->arrived[replica][unit])
                gradients_missed(step->gradients[replica], unit, (struct lane_tree_span){lane, 1});
    }
    memset(step->arrived, 0, sizeof(step->arrived));
}

/* Another number of replicas continues the step: some died, some are new. */
static void divide_anew(struct interrupted *step, unsigned lanes, unsigned replicas, bool shares)
{
    unsigned first_lane[REPLICAS_MAX + 1], first_unit[] = {2, 4};
    struct lane_fact lists[REPLICAS_MAX][LANES_MAX];
    struct step_facts facts[REPLICAS_MAX] = {{0}};
    unsigned heads[REPLICAS_MAX + 1];
    const struct plan_layout layout = {.stage_count = 1,
                                       .replica_count = replicas,
                                       .worker_count = replicas,
                                       .stage_first_unit = first_unit,
                                       .replica_first_lane = first_lane,
                                       .lane_micro_batches = shares ? MICRO_BATCHES : 0,
                                       .replica_head = shares ? heads : NULL};

    assert_true(
        lanes_share(lanes, shares ? MICRO_BATCHES : 1, NULL, replicas, 0, first_lane, heads));
    close_relays(step);
    for (unsigned i = 0; i < MIN(replicas, step->replicas); i++) {
        facts[i].lanes = lists[i];
        list_facts(step->gradients[i], lanes, lists[i]);
        gradients_end_arena(step->gradients[i]);
    }
    step_division_continue(&layout, 0, 1, lanes, MICRO_BATCHES, facts, &step->division);
    for (unsigned i = 0; i < MAX(replicas, step->replicas); i++) {
        bool had = i < step->replicas, has = i < replicas;
        const struct gradients_options options = {.state = step->tiny[i].state,
                                                  .first_unit = 2,
                                                  .unit_count = 2,
                                                  .replica = i,
                                                  .division = &step->division,
                                                  .kept = had && has ? step->gradients[i] : NULL};
        struct error error = {0};
        if (had && !has) {
            gradients_free(step->gradients[i]);
            arena_end(step->tiny[i].state->arena);
        }
        step->gradients[i] = NULL;
        if (has) {
            assert_int_equal(gradients_new(&options, &step->gradients[i], &error), 0);
            gradients_begin(step->gradients[i]);
        }
    }
    step->replicas = replicas;
}

/* Pass the sum of a head on, if this was its last micro-batch. */
static void pass_head(struct interrupted *step, unsigned replica, unsigned unit, unsigned lane,
                      unsigned index)
{
    const struct step_division *division = &step->division;
    unsigned owner = division->owners[lane];
    struct lane_tree_span span = {lane, 1};

    if (owner == replica || index + 1 != division->heads[lane])
        return;
    assert_int_equal(division->givers[lane], replica);
    memcpy(gradients_sum(step->gradients[owner], unit, span),
           gradients_sum(step->gradients[replica], unit, span),
           step->tiny[0].state->units[unit].layout.count * sizeof(float));
    step->arrived[owner][unit] = true;
}

static bool can_go_on(const struct interrupted *step, unsigned replica, unsigned unit,
                      unsigned lane)
{
    return step->division.owners[lane] != replica || !step->division.heads[lane] ||
           step->arrived[replica][unit];
}

/* Compute a run of micro-batches, until @budget units are added. */
static void compute_run(struct interrupted *step, unsigned replica, const struct lane_run *run,
                        unsigned *budget)
{
    for (unsigned m = run->start; m < run->end; m++)
        for (unsigned unit = 4; unit-- > 2 && *budget; --*budget) {
            if (!can_go_on(step, replica, unit, run->lane)) {
                *budget = 1;
                continue;
            }
            run_micro_batch(step->gradients[replica], unit, run->lane, m,
                            step->tiny[0].state->units[unit].layout.count);
            pass_head(step, replica, unit, run->lane, m);
        }
}

/* Each replica computes up to @budget_max units of micro-batches; the unit behind may be one
 * behind. The heads, which replicas compute first of all, are passed on in either direction. */
static void compute(struct interrupted *step, uint64_t seed, unsigned budget_max)
{
    struct lane_run runs[LANE_TREE_LANES_MAX + 1];
    unsigned budgets[REPLICAS_MAX];

    for (unsigned replica = 0; replica < step->replicas; replica++)
        budgets[replica] = budget_max == UINT32_MAX ? UINT32_MAX : draw(seed, replica, budget_max);
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned replica = 0; replica < step->replicas; replica++) {
            unsigned count = step_division_runs(&step->division, replica, runs);
            for (unsigned i = 0; i < count; i++) {
                bool is_head = step->division.owners[runs[i].lane] != replica;
                if (is_head == (turn == 0))
                    compute_run(step, replica, &runs[i], &budgets[replica]);
            }
        }
}

static unsigned find_replica(const struct step_division *division, struct lane_tree_span span)
{
    for (unsigned i = 1; i < span.count; i++)
        assert_int_equal(division->owners[span.first + i], division->owners[span.first]);
    return division->owners[span.first];
}

static void check_sums(struct interrupted *step, unsigned lanes)
{
    struct lane_tree_part parts[LANES_MAX];
    unsigned count = lane_tree_parts(lanes, step->division.owners, parts);
    unsigned seen[REPLICAS_MAX] = {0};
    float expected[ELEMENTS_MAX];

    for (unsigned i = 0; i < count; i++) {
        unsigned replica = find_replica(&step->division, parts[i].span);
        for (unsigned unit = 2; unit < 4; unit++) {
            size_t elements = step->tiny[0].state->units[unit].layout.count;
            naive_sum(unit, parts[i].span, expected, elements);
            assert_memory_equal(gradients_subtrees(step->gradients[replica], unit)[seen[replica]],
                                expected, elements * sizeof(float));
        }
        seen[replica]++;
    }
}

static void run_interrupted(uint64_t seed)
{
    struct interrupted step = {.replicas = 0};
    unsigned lanes = REPLICAS_MAX + draw(seed, 100, LANES_MAX - REPLICAS_MAX + 1);

    for (unsigned i = 0; i < REPLICAS_MAX; i++)
        tiny_state_init(&step.tiny[i], true);
    for (unsigned turn = 0; turn < 5; turn++) {
        divide_anew(&step, lanes, 1 + draw(seed, 200 + turn, REPLICAS_MAX), seed % 4 > 0);
        compute(&step, seed + turn * 1000, turn == 4 ? UINT32_MAX : 2 * lanes * MICRO_BATCHES);
    }
    check_sums(&step, lanes);
    for (unsigned i = 0; i < REPLICAS_MAX; i++) {
        gradients_free(step.gradients[i]);
        arena_end(step.tiny[i].state->arena);
        tiny_state_done(&step.tiny[i]);
    }
}

/* Deaths and newcomers within a step, at any micro-batch of any unit, where replicas share lanes
 * and where they do not: the sums are those of an undisturbed step. */
static void test_interrupted_steps(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++)
        run_interrupted(seed);
}

/* The planner's count of buffers is the worker's. */
static void test_buffers_are_as_planned(void **state)
{
    (void)state;
    for (unsigned lanes = 1; lanes <= 40; lanes++)
        for (unsigned replicas = 1; replicas <= lanes; replicas++)
            for (unsigned shares = 0; shares < 2; shares++) {
                unsigned first[41], heads[41], most = 0;
                const struct plan_layout layout = {.replica_count = replicas,
                                                   .replica_first_lane = first,
                                                   .lane_micro_batches = MICRO_BATCHES,
                                                   .replica_head = shares ? heads : NULL};
                struct step_division division;
                assert_true(lanes_share(lanes, shares ? MICRO_BATCHES : 1, NULL, replicas, 0, first,
                                        heads));
                step_division_plan(&layout, lanes, MICRO_BATCHES, &division);
                for (unsigned replica = 0; replica < replicas; replica++) {
                    unsigned depth = gradients_depth(&division, replica);
                    assert_int_equal(layout_buffers(&layout, replica), depth);
                    most = MAX(most, depth);
                }
                assert_int_equal(buffers_even(lanes, shares ? MICRO_BATCHES : 0, replicas), most);
            }
}

/* ---- sums of other workers ---- */

/* List the sums in @gradients as those of rank @source. */
static void list_sums(const struct gradients *gradients, unsigned source, struct step_sums *sums)
{
    struct lane_sum found[GRADIENTS_SUMS_MAX];

    for (unsigned unit = 2; unit < 4; unit++) {
        unsigned count = gradients_sums(gradients, unit, found);
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(
                step_sums_add(sums, &(struct step_sum){.unit = unit,
                                                       .source = source,
                                                       .span = found[i].span,
                                                       .micro_batches = found[i].micro_batches,
                                                       .offered = source > 0}),
                0);
    }
}

/* A pipeline of two units stops; then one worker has both units, and gets the sums of unit 3 from
 * the other worker, except one that does not arrive. */
static void run_moved(uint64_t seed)
{
    const unsigned lanes = 9;
    const struct step_sums_stage stage = {2, 4, false};
    struct step_division division = {
        .step = 1, .lanes = lanes, .micro_batches = MICRO_BATCHES, .replicas = 2};
    CLEANUP(step_sums_done) struct step_sums sums = {0};
    CLEANUP(step_facts_done) struct step_facts facts = {0};
    struct lane_run runs[LANE_TREE_LANES_MAX + 1];
    struct gradients *parts[2], *both = NULL;
    struct tiny_state tiny[2];
    struct error error = {0};
    float expected[ELEMENTS_MAX];

    for (unsigned i = 0; i < 2; i++) {
        tiny_state_init(&tiny[i], true);
        parts[i] = make_gradients(tiny[i].state, 2 + i, 1, lanes, (struct lane_tree_span){0, 9});
        gradients_begin(parts[i]);
        unsigned done = draw(seed, i, lanes * MICRO_BATCHES);
        for (unsigned k = 0; k < done; k++)
            run_micro_batch(parts[i], 2 + i, k / MICRO_BATCHES, k % MICRO_BATCHES,
                            tiny[i].state->units[2 + i].layout.count);
        list_sums(parts[i], i, &sums);
    }
    assert_int_equal(step_sums_facts(&sums, &stage, lanes, MICRO_BATCHES, &facts), 0);
    for (unsigned lane = 0; lane < lanes; lane++) {
        division.owners[lane] = 1;
        division.starts[lane] = facts.lanes ? facts.lanes[lane].micro_batches : 0;
    }
    step_sums_choose(&sums, &division, 1);
    gradients_end_arena(parts[0]);
    const struct gradients_options options = {.state = tiny[0].state,
                                              .first_unit = 2,
                                              .unit_count = 2,
                                              .replica = 1,
                                              .division = &division,
                                              .kept = parts[0],
                                              .offered = &sums};
    assert_int_equal(gradients_new(&options, &both, &error), 0);
    gradients_begin(both);
    for (unsigned i = 0; i < sums.count; i++) {
        const struct step_sum *sum = &sums.list[i];
        if (!sum->offered)
            continue;
        assert_true(sum->chosen);
        memcpy(gradients_sum(both, 3, sum->span), gradients_sum(parts[1], 3, sum->span),
               tiny[0].state->units[3].layout.count * sizeof(float));
    }
    unsigned count = step_division_runs(&division, 1, runs);
    for (unsigned i = 0; i < count; i++)
        for (unsigned m = runs[i].start; m < MICRO_BATCHES; m++)
            for (unsigned unit = 4; unit-- > 2;)
                run_micro_batch(both, unit, runs[i].lane, m,
                                tiny[0].state->units[unit].layout.count);
    for (unsigned unit = 2; unit < 4; unit++) {
        size_t elements = tiny[0].state->units[unit].layout.count;
        naive_sum(unit, (struct lane_tree_span){0, lanes}, expected, elements);
        assert_memory_equal(gradients_subtrees(both, unit)[0], expected, elements * sizeof(float));
    }
    gradients_free(both);
    gradients_free(parts[1]);
    for (unsigned i = 0; i < 2; i++) {
        arena_end(tiny[i].state->arena);
        tiny_state_done(&tiny[i]);
    }
}

static void test_sums_of_another_worker_are_gone_on_with(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++)
        run_moved(seed);
}

static void test_a_sum_that_does_not_arrive_is_none(void **state)
{
    struct step_division division = {
        .step = 1, .lanes = 4, .micro_batches = MICRO_BATCHES, .replicas = 1};
    CLEANUP(step_sums_done) struct step_sums sums = {0};
    const struct step_sum sum = {.unit = 2,
                                 .source = 1,
                                 .span = {2, 2},
                                 .micro_batches = MICRO_BATCHES,
                                 .offered = true,
                                 .chosen = true};
    struct lane_sum found[GRADIENTS_SUMS_MAX];
    struct gradients *gradients = NULL;
    struct error error = {0};
    struct tiny_state tiny;

    (void)state;
    tiny_state_init(&tiny, true);
    division.starts[2] = division.starts[3] = MICRO_BATCHES;
    assert_int_equal(step_sums_add(&sums, &sum), 0);
    const struct gradients_options options = {.state = tiny.state,
                                              .first_unit = 2,
                                              .unit_count = 1,
                                              .division = &division,
                                              .offered = &sums};
    assert_int_equal(gradients_new(&options, &gradients, &error), 0);
    gradients_begin(gradients);
    assert_int_equal(gradients_sums(gradients, 2, found), 1);
    gradients_missed(gradients, 2, sum.span);
    assert_int_equal(gradients_sums(gradients, 2, found), 0);
    assert_null(gradients_sum(gradients, 2, sum.span));
    assert_int_equal(gradients_sums(gradients, 3, found), 0); /* of another stage */
    gradients_free(gradients);
    tiny_state_done(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranges),
        cmocka_unit_test(test_units_do_not_mix),
        cmocka_unit_test(test_frozen_units_take_nothing),
        cmocka_unit_test(test_interrupted_steps),
        cmocka_unit_test(test_buffers_are_as_planned),
        cmocka_unit_test(test_sums_of_another_worker_are_gone_on_with),
        cmocka_unit_test(test_a_sum_that_does_not_arrive_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
