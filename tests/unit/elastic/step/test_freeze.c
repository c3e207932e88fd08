/* Tests of freezing: known sequences, computed by hand, for every policy. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "elastic/job/job_spec.h"
#include "elastic/step/freeze.h"

static struct job_spec new_spec(enum job_freeze policy, unsigned layers, double alpha,
                                uint64_t every, unsigned keep_active)
{
    struct job_spec spec = {.model.layers = layers};
    spec.elastic.freeze.policy = policy;
    spec.elastic.freeze.alpha = alpha;
    spec.elastic.freeze.every = every;
    spec.elastic.freeze.keep_active = keep_active;
    return spec;
}

/* Commit one step; layer l has square sum squares[l], split over its two units. @validation: the
 * loss, NULL: not measured */
static void commit_measured(struct freeze_state *state, const struct job_spec *spec, uint64_t step,
                            const double *squares, const double *validation)
{
    static struct step_record record;
    step_record_init(&record, step, job_model_unit_count(&spec->model), 1);
    memset(record.unit_squares, 0, sizeof(record.unit_squares));
    record.unit_squares[0] = 1e-9; /* embedding and head have the smallest norm, and do not count */
    record.unit_squares[record.unit_count - 1] = 1e-9;
    for (unsigned l = 0; l < spec->model.layers; l++) {
        record.unit_squares[1 + 2 * l] = 0.25 * squares[l];
        record.unit_squares[2 + 2 * l] = 0.75 * squares[l];
    }
    record.lane_losses[0] = 2;
    record.evaluated = validation;
    if (validation)
        record.lane_validation_losses[0] = *validation;
    freeze_step(state, &spec->elastic.freeze, &spec->model, &record);
}

static void commit_step(struct freeze_state *state, const struct job_spec *spec, uint64_t step,
                        const double *squares)
{
    commit_measured(state, spec, step, squares, NULL);
}

/*
 * Run @count decisions with the same squares each step; check the frozen layers after each
 * decision.
 */
static void run(const struct job_spec *spec, const double *squares, unsigned count,
                const unsigned *expected)
{
    struct freeze_state state;
    uint64_t step = 0;
    freeze_init(&state, &spec->elastic.freeze);
    for (unsigned i = 0; i < count; i++) {
        unsigned before = state.frozen_layers;
        for (uint64_t k = 0; k < spec->elastic.freeze.every; k++) {
            assert_int_equal(state.frozen_layers, before); /* only at a decision */
            commit_step(&state, spec, ++step, squares);
        }
        assert_int_equal(state.frozen_layers, expected[i]);
        assert_int_equal(state.decisions, i + 1);
    }
}
#define RUN(spec, squares, ...)                                                                    \
    run(spec, squares, ARRAY_COUNT(((const unsigned[]){__VA_ARGS__})),                             \
        (const unsigned[]){__VA_ARGS__})

static void test_none_never_freezes(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_NONE, 4, 0.5, 2, 0);
    struct freeze_state freeze;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (uint64_t step = 1; step <= 20; step++)
        commit_step(&freeze, &spec, step, (const double[]){1, 1, 1, 1});
    assert_int_equal(freeze.frozen_layers, 0);
    assert_int_equal(freeze.decisions, 0);
}

static void test_schedule(void **state)
{
    (void)state;
    static const double any[12] = {0};
    /* 12 (1 - 0.5^t): 6, 9, 10.5, 11.25, ... */
    struct job_spec half = new_spec(JOB_FREEZE_SCHEDULE, 12, 0.5, 3, 1);
    RUN(&half, any, 6, 9, 11, 11, 11);
    /* 6 (1 - 0.75^t): 1.5, 2.625, 3.47, 4.10, 4.58, 4.93 */
    struct job_spec quarter = new_spec(JOB_FREEZE_SCHEDULE, 6, 0.25, 1, 2);
    RUN(&quarter, any, 2, 3, 4, 4, 4, 4);
    struct job_spec all = new_spec(JOB_FREEZE_SCHEDULE, 6, 1, 1, 0);
    RUN(&all, any, 6, 6);
}

/* 0.07 * 100 is slightly above 7 in binary, and still means 7 layers. */
static void test_rounding_noise_freezes_nothing_more(void **state)
{
    (void)state;
    double falling[100];
    for (unsigned layer = 0; layer < ARRAY_COUNT(falling); layer++)
        falling[layer] = layer + 1 < ARRAY_COUNT(falling) ? 1 : 0;
    struct job_spec gradient = new_spec(JOB_FREEZE_GRADIENT, 100, 0.07, 1, 0);
    RUN(&gradient, falling, 7);
    struct job_spec schedule = new_spec(JOB_FREEZE_SCHEDULE, 100, 0.07, 1, 0);
    RUN(&schedule, falling, 7);
}

static void test_gradient_is_bounded_by_alpha(void **state)
{
    (void)state;
    /* The top layer is calmest, so only alpha counts: ceil(6 / 3) = 2, ceil(2 + 4 / 3) = 4, 5, 6 */
    static const double falling[] = {9, 8, 7, 6, 5, 4};
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 6, 1.0 / 3, 5, 1);
    RUN(&spec, falling, 2, 4, 5, 5);
    struct job_spec keep = new_spec(JOB_FREEZE_GRADIENT, 6, 1.0 / 3, 5, 3);
    RUN(&keep, falling, 2, 3, 3);
    struct job_spec everything = new_spec(JOB_FREEZE_GRADIENT, 6, 1.0 / 3, 5, 0);
    RUN(&everything, falling, 2, 4, 5, 6, 6);
}

static void test_gradient_stops_at_the_calmest_layer(void **state)
{
    (void)state;
    /* Layer 1 (the second) is calmest: two layers freeze though alpha allows four. */
    static const double valley[] = {9, 1, 7, 6, 5, 8};
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 6, 0.6, 4, 1);
    RUN(&spec, valley, 2, 5, 5); /* then layer 4 among 2..5: min(ceil(2 + 2.4), 5) = 5 */
    /* The lowest trained layer is calmest: one layer freezes at a time, but always one. */
    static const double rising[] = {1, 2, 3, 4, 5, 6};
    struct job_spec slow = new_spec(JOB_FREEZE_GRADIENT, 6, 0.6, 4, 2);
    RUN(&slow, rising, 1, 2, 3, 4, 4);
}

/*
 * 4 layers of width 64, context 64, vocabulary 256, in units of a token's multiplications:
 * attention 64 x 256 + 64 x 64, MLP 64 x 512, head 64 x 256, embedding 64; forward of all 4 x 53248
 * + 16448 = 229440. Backward of n layers less: 2 x (4 - n) x 53248 + 2 x 16384. As shares of 3 x
 * 229440 with n = 1 to 4: 0.845, 0.690, 0.536, 0.381.
 */
static void test_budget_freezes_as_few_as_suffice(void **state)
{
    (void)state;
    static const double any[4] = {0};
    struct job_spec spec = new_spec(JOB_FREEZE_BUDGET, 4, 1, 2, 0);
    spec.model = (struct job_model){
        .family = "gpt2", .layers = 4, .width = 64, .heads = 4, .context = 64, .vocab = 256};
    spec.elastic.freeze.budget = 0.69;
    RUN(&spec, any, 3, 3, 3);
    spec.elastic.freeze.budget = 0.7;
    RUN(&spec, any, 2, 2);
    spec.elastic.freeze.budget = 1;
    RUN(&spec, any, 0, 0);
    spec.elastic.freeze.budget = 0.4;
    RUN(&spec, any, 4, 4);
    spec.elastic.freeze.alpha = 0.25; /* ceil(1), ceil(1 + 3/4), ceil(2 + 2/4), ceil(3 + 1/4) */
    RUN(&spec, any, 1, 2, 3, 4, 4);
    spec.elastic.freeze.keep_active = 2;
    RUN(&spec, any, 1, 2, 2);
}

/* Commit one step, the similarities of which are all @similarity if it measures. */
static void commit_similarity(struct freeze_state *freeze, const struct job_spec *spec,
                              uint64_t step, double similarity, double validation)
{
    static struct step_record record;
    step_record_init(&record, step, job_model_unit_count(&spec->model), 1);
    memset(record.unit_squares, 0, sizeof(record.unit_squares));
    record.lane_losses[0] = 2;
    record.lane_validation_losses[0] = validation;
    record.evaluated = true;
    record.has_similarities = freeze_measures(freeze, &spec->elastic.freeze, &spec->model, step);
    for (unsigned i = 0; i < STEP_RECORD_PAIRS; i++)
        record.similarities[i] = similarity;
    freeze_step(freeze, &spec->elastic.freeze, &spec->model, &record);
}

static struct job_spec plasticity_spec(void)
{
    struct job_spec spec = new_spec(JOB_FREEZE_PLASTICITY, 4, 1, 2, 1);
    spec.elastic.freeze.tolerance = 0.25;
    spec.elastic.freeze.patience = 2;
    spec.elastic.freeze.from_start = 1;
    return spec;
}

/* Every second step measures. */
static void test_plasticity_freezes_the_calm_one_by_one(void **state)
{
    (void)state;
    static const double similarities[] = {
        0, 0.4, 0.5, 0.6, 0.7, 0.8, /* layer 1: changes of 0.4, then 0.1: two are equal to two */
        0, 0.1, 0.2, 0.3, 0.4,      /* layer 2 begins anew */
        9,
    };
    static const unsigned frozen[] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3};
    struct job_spec spec = plasticity_spec();
    struct freeze_state freeze;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (unsigned i = 0; i < ARRAY_COUNT(similarities); i++) {
        unsigned before = freeze.frozen_layers;
        commit_similarity(&freeze, &spec, 2 * i + 1, -1, 2); /* measures nothing */
        assert_int_equal(freeze.frozen_layers, before);
        commit_similarity(&freeze, &spec, 2 * i + 2, similarities[i], 2);
        assert_int_equal(freeze.frozen_layers, frozen[i]);
    }
    assert_false(
        freeze_measures(&freeze, &spec.elastic.freeze, &spec.model, 40)); /* none is left */
}

/* A layer that the guard holds back is still measured, and freezes when the guard permits it. */
static void test_a_guard_holds_back_the_calm(void **state)
{
    (void)state;
    struct job_spec spec = plasticity_spec();
    struct freeze_state freeze;
    spec.elastic.freeze.guard = 0.1;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(freeze.plasticity.count, i < 2 ? 0 : i - 1);
        commit_similarity(&freeze, &spec, 2 * i + 2, 0.1 * i, i < 2 || i > 7 ? 2 : 3);
        assert_int_equal(freeze.frozen_layers, i < 8 ? 1 : 2);
    }
}

/* Layers that thaw are measured anew. */
static void test_a_thaw_forgets_plasticity(void **state)
{
    (void)state;
    struct job_spec spec = plasticity_spec();
    struct freeze_state freeze;
    spec.elastic.freeze.thaw = 0.1;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (unsigned i = 0; i < 3; i++)
        commit_similarity(&freeze, &spec, 2 * i + 2, 0.1 * i, 2);
    assert_int_equal(freeze.plasticity.count, 2);
    commit_similarity(&freeze, &spec, 8, 0.3, 3);
    assert_false(freeze.plasticity.has_before);
    assert_int_equal(freeze.frozen_layers, 1);
}

static void test_plasticity_continues_the_same(void **state)
{
    (void)state;
    struct job_spec spec = plasticity_spec();
    struct freeze_state whole, resumed;
    struct error error = {0};
    freeze_init(&whole, &spec.elastic.freeze);
    resumed = whole;
    for (uint64_t step = 1; step <= 30; step++) {
        commit_similarity(&whole, &spec, step, 0.01 * (double)step, 2);
        commit_similarity(&resumed, &spec, step, 0.01 * (double)step, 2);
        assert_int_equal(whole.plasticity.has_before, resumed.plasticity.has_before);
        assert_int_equal(whole.plasticity.count, resumed.plasticity.count);
        assert_memory_equal(whole.plasticity.values, resumed.plasticity.values,
                            whole.plasticity.count * sizeof(double));
        assert_int_equal(whole.frozen_layers, resumed.frozen_layers);
        AUTO_JSON json_t *tree = freeze_encode(&whole, 4);
        assert_int_equal(freeze_decode(tree, 4, &resumed, &error), 0);
    }
    assert_int_equal(whole.frozen_layers, 3);
}

static void test_ties_go_to_the_lowest(void **state)
{
    (void)state;
    static const double equal[] = {2, 2, 2, 2};
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 4, 1, 1, 1);
    RUN(&spec, equal, 1, 2, 3);
}

/* Layers that are frozen from the start stay so, and count as frozen in every decision. */
static void test_frozen_from_the_start(void **state)
{
    (void)state;
    static const double squares[] = {9, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9, 9};
    struct job_spec spec = new_spec(JOB_FREEZE_NONE, 12, 0.5, 2, 0);
    struct freeze_state freeze;
    spec.elastic.freeze.from_start = 5;
    freeze_init(&freeze, &spec.elastic.freeze);
    assert_int_equal(freeze.frozen_layers, 5);
    for (uint64_t step = 1; step <= 9; step++)
        commit_step(&freeze, &spec, step, squares);
    assert_int_equal(freeze.frozen_layers, 5);
    assert_int_equal(freeze.decisions, 0);

    spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
    spec.elastic.freeze.from_start = 7; /* the schedule: 6, 9, 11, 12 */
    RUN(&spec, squares, 7, 9, 11, 12);

    spec.elastic.freeze.policy = JOB_FREEZE_GRADIENT;
    spec.elastic.freeze.from_start = 1; /* the calmest layer is the fourth */
    RUN(&spec, squares, 4, 5, 6);
}

/* Neither norms nor decisions before that step; intervals count from it. */
static void test_decisions_begin_after(void **state)
{
    (void)state;
    static const double first[] = {0, 9, 9, 9}, later[] = {9, 9, 1, 9};
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 4, 1, 4, 0);
    struct freeze_state freeze;
    spec.elastic.freeze.after = 6;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (uint64_t step = 1; step <= 6; step++)
        commit_step(&freeze, &spec, step, first);
    for (uint64_t step = 7; step <= 9; step++)
        commit_step(&freeze, &spec, step, later);
    assert_int_equal(freeze.decisions, 0);
    assert_int_equal(freeze.frozen_layers, 0);
    commit_step(&freeze, &spec, 10, later);
    assert_int_equal(freeze.decisions, 1);
    assert_int_equal(freeze.frozen_layers, 3);
    for (uint64_t step = 11; step <= 14; step++)
        commit_step(&freeze, &spec, step, later);
    assert_int_equal(freeze.decisions, 2);
    assert_int_equal(freeze.frozen_layers, 4);
}

/* A diverging step does not count; the decision due at that step is still made. */
static void test_a_step_that_diverges_has_no_say(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 4, 1, 2, 1);
    struct freeze_state freeze, without;
    freeze_init(&freeze, &spec.elastic.freeze);
    freeze_init(&without, &spec.elastic.freeze);
    commit_step(&freeze, &spec, 1, (const double[]){9, 1, 9, 9});
    commit_step(&without, &spec, 1, (const double[]){9, 1, 9, 9});
    commit_step(&freeze, &spec, 2, (const double[]){0, INFINITY, NAN, 0});
    commit_step(&without, &spec, 2, (const double[]){0, 0, 0, 0});
    assert_int_equal(freeze.frozen_layers, 2);
    assert_memory_equal(&freeze, &without, sizeof(freeze));
}

/* A decision covers all steps since the last decision, and forgets the steps before. */
static void test_norms_accumulate_between_decisions(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 4, 1, 2, 0);
    struct freeze_state freeze;
    freeze_init(&freeze, &spec.elastic.freeze);
    commit_step(&freeze, &spec, 1, (const double[]){1, 9, 9, 9});
    commit_step(&freeze, &spec, 2, (const double[]){9, 9, 0, 9}); /* sums 10, 18, 9, 18 */
    assert_int_equal(freeze.frozen_layers, 3);
    freeze_init(&freeze, &spec.elastic.freeze);
    commit_step(&freeze, &spec, 1, (const double[]){1, 90, 5, 90});
    commit_step(&freeze, &spec, 2, (const double[]){1, 90, 5, 90});
    assert_int_equal(freeze.frozen_layers, 1);
    commit_step(&freeze, &spec, 3, (const double[]){0, 1, 9, 9});
    commit_step(&freeze, &spec, 4, (const double[]){0, 1, 9, 9}); /* layer 1's 180 is forgotten */
    assert_int_equal(freeze.frozen_layers, 2);
}

/* A validation loss, and the frozen layers and the decision after the step that measured it. */
struct measured_step {
    double loss;
    unsigned frozen, decisions;
};

/* Commit @count steps of four layers with equal norms; the state survives each of them encoded. */
static void follow(struct freeze_state *freeze, const struct job_spec *spec,
                   const struct measured_step *steps, unsigned count)
{
    static const double squares[4] = {1, 1, 1, 1};
    struct freeze_state resumed;
    struct error error = {0};
    for (unsigned i = 0; i < count; i++) {
        commit_measured(freeze, spec, i + 1, squares, &steps[i].loss);
        assert_int_equal(freeze->frozen_layers, steps[i].frozen);
        assert_int_equal(freeze->decisions, steps[i].decisions);
        AUTO_JSON json_t *tree = freeze_encode(freeze, 4);
        assert_int_equal(freeze_decode(tree, 4, &resumed, &error), 0);
        assert_memory_equal(freeze, &resumed, sizeof(resumed));
    }
}

/* With a guard of 10 %: the loss of each step, a decision after each. */
static void test_guard_holds_back_while_the_loss_is_worse(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_SCHEDULE, 4, 0.25, 1, 1);
    static const double squares[4] = {1, 1, 1, 1};
    static const struct measured_step steps[] = {
        {2.0, 1, 1},       {2.1, 2, 2}, /* worse, but by less than a tenth */
        {2.3, 2, 2},       {NAN, 2, 2}, /* not measured as a number: worse than any */
        {2.2000001, 2, 2}, {1.0, 3, 3}, /* as the next decision of the schedule */
        {1.2, 3, 3},
    };
    struct freeze_state freeze;
    spec.elastic.freeze.guard = 0.1;
    freeze_init(&freeze, &spec.elastic.freeze);
    follow(&freeze, &spec, steps, ARRAY_COUNT(steps));
    assert_true(freeze.best_validation == 1.0 && freeze.last_validation == 1.2);
    commit_step(&freeze, &spec, 8, squares); /* nothing is measured: the last loss stays */
    assert_int_equal(freeze.decisions, 3);
}

/* With a margin of 10 %: the loss of each step, a decision after each. */
static void test_layers_thaw_while_the_loss_is_worse(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_SCHEDULE, 4, 0.25, 1, 1);
    static const struct measured_step steps[] = {
        {2.0, 1, 1}, {2.1, 2, 2}, {2.3, 0, 0}, /* worse by more than a tenth */
        {2.3, 0, 0}, {2.2, 1, 1},              /* the schedule begins anew */
        {1.0, 2, 2}, {NAN, 0, 0}, {1.0, 1, 1},
    };
    struct freeze_state freeze;
    spec.elastic.freeze.thaw = 0.1;
    freeze_init(&freeze, &spec.elastic.freeze);
    follow(&freeze, &spec, steps, ARRAY_COUNT(steps));
}

/* Moments of zero need the correction of a first step. */
static void test_thawed_layers_count_steps_anew(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_SCHEDULE, 4, 0.5, 1, 1);
    static const double squares[4] = {1, 1, 1, 1}, losses[] = {1, 1, 2, 1, 2};
    struct freeze_state freeze;
    spec.elastic.freeze.thaw = 0.1;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (unsigned i = 0; i < 5; i++) /* 3 layers thaw after step 3, 2 of them after step 5 again */
        commit_measured(&freeze, &spec, i + 1, squares, &losses[i]);
    static const uint64_t steps[] = {1, 1, 1, 1, 1, 3, 3, 6, 6, 6};
    for (unsigned unit = 0; unit < ARRAY_COUNT(steps); unit++)
        assert_int_equal(freeze_unit_steps(&freeze, &spec.model, unit, 6), steps[unit]);
    AUTO_JSON json_t *tree = freeze_encode(&freeze, 4);
    struct freeze_state resumed;
    struct error error = {0};
    assert_int_equal(freeze_decode(tree, 4, &resumed, &error), 0);
    assert_memory_equal(&freeze, &resumed, sizeof(freeze));
    json_array_append_new(json_object_get(tree, "layer_thawed"), json_integer(1));
    assert_int_equal(freeze_decode(tree, 4, &resumed, &error), -EINVAL);
}

/* Norms from before the thaw, and from while the loss is worse, do not count. */
static void test_a_thaw_forgets_the_norms(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 4, 1, 2, 0);
    static const double losses[] = {1, 2, 2, 1, 1, 1};
    struct freeze_state freeze;
    spec.elastic.freeze.thaw = 0.1;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (unsigned i = 0; i < 3; i++)
        commit_measured(&freeze, &spec, i + 1, (const double[]){0, 9, 9, 9}, &losses[i]);
    commit_measured(&freeze, &spec, 4, (const double[]){9, 0, 9, 9}, &losses[3]);
    assert_int_equal(freeze.frozen_layers, 2);
}

/* Layers that were frozen from the start stay frozen, and a table that the head has left is not
 * shared again. */
static void test_some_layers_never_thaw(void **state)
{
    (void)state;
    static const double squares[4] = {1, 1, 1, 1}, losses[] = {1, 1, 1, 2};
    for (unsigned from_start = 0; from_start < 3; from_start++)
        for (unsigned tied = 0; tied < 2; tied++) {
            struct job_spec spec = new_spec(JOB_FREEZE_SCHEDULE, 4, 0.5, 1, 1);
            struct freeze_state freeze;
            spec.elastic.freeze.thaw = 0.1;
            spec.elastic.freeze.from_start = from_start;
            spec.model.tied = tied;
            freeze_init(&freeze, &spec.elastic.freeze);
            assert_int_equal(
                freeze_settled(&spec.elastic.freeze, &spec.model, freeze.frozen_layers),
                from_start);
            for (unsigned i = 0; i < 4; i++)
                commit_measured(&freeze, &spec, i + 1, squares, &losses[i]);
            assert_int_equal(freeze.frozen_layers, MAX(from_start, tied));
            assert_int_equal(freeze_settled(&spec.elastic.freeze, &spec.model, 3),
                             MAX(from_start, tied));
            spec.elastic.freeze.thaw = 0;
            assert_int_equal(freeze_settled(&spec.elastic.freeze, &spec.model, 3), 3);
        }
}

/* Without a guard, measured losses do not change the state of a job. */
static void test_without_a_guard_no_loss_is_kept(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_SCHEDULE, 4, 0.25, 1, 1);
    static const double squares[4] = {1, 1, 1, 1}, losses[] = {1, 9};
    struct freeze_state freeze;
    freeze_init(&freeze, &spec.elastic.freeze);
    for (unsigned i = 0; i < 2; i++)
        commit_measured(&freeze, &spec, i + 1, squares, &losses[i]);
    assert_int_equal(freeze.decisions, 2);
    AUTO_JSON json_t *tree = freeze_encode(&freeze, 4);
    assert_int_equal(json_object_size(tree), 3);
}

/* A state saved in the middle of an interval and read back continues unchanged. */
static void test_round_trip_continues_the_same(void **state)
{
    (void)state;
    struct job_spec spec = new_spec(JOB_FREEZE_GRADIENT, 6, 0.4, 3, 1);
    static const double squares[] = {0.1, 0.7, 0.3, 1e-300, 3, 0.2};
    struct freeze_state whole, resumed;
    struct error error = {0};
    freeze_init(&whole, &spec.elastic.freeze);
    for (uint64_t step = 1; step <= 4; step++)
        commit_step(&whole, &spec, step, squares);
    AUTO_JSON json_t *tree = freeze_encode(&whole, 6);
    assert_int_equal(freeze_decode(tree, 6, &resumed, &error), 0);
    for (uint64_t step = 5; step <= 20; step++) {
        commit_step(&whole, &spec, step, squares);
        commit_step(&resumed, &spec, step, squares);
        assert_memory_equal(&whole, &resumed, sizeof(whole));
    }
}

static void test_decode_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"{}", "frozen_layers"},
        {"{\"frozen_layers\":3,\"decisions\":0,\"layer_squares\":[]}", "frozen_layers"},
        {"{\"frozen_layers\":0,\"layer_squares\":[]}", "decisions"},
        {"{\"frozen_layers\":0,\"decisions\":-1,\"layer_squares\":[]}", "decisions"},
        {"{\"frozen_layers\":0,\"decisions\":0}", "layer_squares"},
        {"{\"frozen_layers\":0,\"decisions\":0,\"best_validation\":2}", "best_validation"},
        {"{\"frozen_layers\":0,\"decisions\":0,\"last_validation\":\"bff0000000000000\"}",
         "last_validation"},
        {"{\"frozen_layers\":0,\"decisions\":0,\"layer_squares\":[\"0000000000000000\"]}",
         "1 values for 2 layers"},
        {"{\"frozen_layers\":0,\"decisions\":0,\"layer_squares\":[1,2]}", "layer_squares"},
        {"{\"frozen_layers\":0,\"decisions\":0,\"layer_squares\":[\"\",\"\",\"\"]}",
         "layer_squares"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct freeze_state freeze;
        struct error error = {0};
        AUTO_JSON json_t *tree = json_loads(cases[i].text, 0, NULL);
        assert_non_null(tree);
        assert_int_equal(freeze_decode(tree, 2, &freeze, &error), -EINVAL);
        if (!strstr(error.text, cases[i].named))
            fail_msg("\"%s\" does not name \"%s\"", error.text, cases[i].named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_never_freezes),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_rounding_noise_freezes_nothing_more),
        cmocka_unit_test(test_gradient_is_bounded_by_alpha),
        cmocka_unit_test(test_gradient_stops_at_the_calmest_layer),
        cmocka_unit_test(test_budget_freezes_as_few_as_suffice),
        cmocka_unit_test(test_plasticity_freezes_the_calm_one_by_one),
        cmocka_unit_test(test_a_guard_holds_back_the_calm),
        cmocka_unit_test(test_a_thaw_forgets_plasticity),
        cmocka_unit_test(test_plasticity_continues_the_same),
        cmocka_unit_test(test_ties_go_to_the_lowest),
        cmocka_unit_test(test_frozen_from_the_start),
        cmocka_unit_test(test_decisions_begin_after),
        cmocka_unit_test(test_a_step_that_diverges_has_no_say),
        cmocka_unit_test(test_norms_accumulate_between_decisions),
        cmocka_unit_test(test_guard_holds_back_while_the_loss_is_worse),
        cmocka_unit_test(test_without_a_guard_no_loss_is_kept),
        cmocka_unit_test(test_layers_thaw_while_the_loss_is_worse),
        cmocka_unit_test(test_thawed_layers_count_steps_anew),
        cmocka_unit_test(test_a_thaw_forgets_the_norms),
        cmocka_unit_test(test_some_layers_never_thaw),
        cmocka_unit_test(test_round_trip_continues_the_same),
        cmocka_unit_test(test_decode_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
