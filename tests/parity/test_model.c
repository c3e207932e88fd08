/*
 * Tests of the whole model: logits, loss and every gradient against its own oracle, and the bits of
 * a step for every way to cut the model into stages.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "emulator/emulator.h"
#include "kernels/cuda/backend.h"
#include "lib/model/tiny_model.h"
#include "parity/oracle/backend.h"
#include "parity/oracle/model_oracle.h"
#include "parity/oracle/tensor.h"

#define LOSS_SCALE (1.0f / (float)TINY_ROWS)

static struct tiny_model tiny;
static double *oracle_parameters[TINY_UNITS];
static struct oracle oracle = {.parameters = oracle_parameters};

static enum tiny_kind kind; /* of the group that runs */

static int set_up(void **state)
{
    (void)state;
    tiny_open(&tiny, kind);
    oracle.spec = *tiny.spec;
    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        size_t count = tiny.layouts[unit].count;
        oracle_parameters[unit] = calloc(count, sizeof(double));
        for (size_t i = 0; i < count; i++)
            oracle_parameters[unit][i] = (double)tiny.host_parameters[unit][i];
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned unit = 0; unit < TINY_UNITS; unit++)
        free(oracle_parameters[unit]);
    tiny_close(&tiny);
    return 0;
}

static void expect_close(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fmax(1.0, fabs(want))))
        fail_msg("%.9g is not %.9g", value, want);
}

/* ---- against the oracle ---- */

static void test_logits_and_loss(void **state)
{
    (void)state;
    static float logits[TINY_ROWS * TINY_VOCAB];
    static double want[TINY_ROWS * TINY_VOCAB];
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);

    stage_forward(stage, 0, tiny.weights, tiny.tokens[0], tiny.targets[0], false, 0.0f);
    double loss = stage_loss_sum(stage, 0);
    stage_logits(stage, 0, logits);
    for (size_t b = 0; b < TINY_BATCH; b++)
        oracle_logits(&oracle, tiny.tokens[0] + b * TINY_CONTEXT,
                      want + b * TINY_CONTEXT * TINY_VOCAB);
    for (size_t i = 0; i < ARRAY_COUNT(logits); i++)
        expect_close((double)logits[i], want[i], 2e-5);
    expect_close(loss, oracle_loss_sum(&oracle, tiny.tokens[0], tiny.targets[0], TINY_BATCH), 1e-5);
    stage_free(stage);
}

/* The mean loss of the first micro-batch with unit @unit moved by @distance along @direction. */
static double moved_loss(unsigned unit, const double *direction, double distance)
{
    size_t count = tiny.layouts[unit].count;
    double *kept = oracle_parameters[unit], *moved = calloc(count, sizeof(double));

    for (size_t i = 0; i < count; i++)
        moved[i] = kept[i] + distance * direction[i];
    oracle_parameters[unit] = moved;
    double loss = oracle_loss_sum(&oracle, tiny.tokens[0], tiny.targets[0], TINY_BATCH);
    oracle_parameters[unit] = kept;
    free(moved);
    return loss * (double)LOSS_SCALE;
}

static double slope(unsigned unit, const double *direction)
{
    const double distance = 1e-5;
    return (moved_loss(unit, direction, distance) - moved_loss(unit, direction, -distance)) /
           (2.0 * distance);
}

/* A few single elements of every tensor, spread over it. */
static void expect_elements(unsigned unit, const float *gradient, double *direction)
{
    const unsigned samples = 6;
    const struct unit_layout *layout = &tiny.layouts[unit];

    for (unsigned i = 0; i < layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &layout->tensors[i];
        for (unsigned k = 0; k < samples; k++) {
            size_t at = tensor->offset + (tensor->count - 1) * k / (samples - 1);
            direction[at] = 1.0;
            expect_close((double)gradient[at], slope(unit, direction), 2e-6);
            direction[at] = 0.0;
        }
    }
}

/* All elements at once: slopes along random directions. */
static void expect_directions(unsigned unit, const float *gradient, double *direction)
{
    size_t count = tiny.layouts[unit].count;
    float *random = calloc(count, sizeof(float));

    for (unsigned k = 0; k < 4; k++) {
        double product = 0.0;
        philox_fill_normal(philox_key_make(8, TINY_STREAM), k, 0.0f, 0.1f, random, count);
        for (size_t i = 0; i < count; i++) {
            direction[i] = (double)random[i];
            product += direction[i] * (double)gradient[i];
        }
        expect_close(product, slope(unit, direction), 1e-5);
    }
    memset(direction, 0, count * sizeof(double));
    free(random);
}

static void run_whole(struct stage *stage, unsigned slot, unsigned micro)
{
    stage_forward(stage, slot, tiny.weights, tiny.tokens[micro], tiny.targets[micro], true,
                  LOSS_SCALE);
    for (unsigned unit = TINY_UNITS; unit-- > 0;)
        stage_backward_unit(stage, slot, unit, tiny.weights[unit], tiny.gradients[unit], unit > 0);
}

static void test_gradients(void **state)
{
    (void)state;
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);
    tiny_zero_gradients(&tiny);
    run_whole(stage, 0, 0);

    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        float *gradient = tiny_gradient(&tiny, unit);
        double *direction = calloc(tiny.layouts[unit].count, sizeof(double));
        expect_elements(unit, gradient, direction);
        expect_directions(unit, gradient, direction);
        free(gradient);
        free(direction);
    }
    stage_free(stage);
}

/* ---- the bits of a step ---- */

struct step {
    double losses[TINY_MICROS];
    float *gradients[TINY_UNITS];
};

static void step_done(struct step *step)
{
    for (unsigned unit = 0; unit < TINY_UNITS; unit++)
        free(step->gradients[unit]);
}

static void take_gradients(struct step *step)
{
    for (unsigned unit = 0; unit < TINY_UNITS; unit++)
        step->gradients[unit] = tiny_gradient(&tiny, unit);
}

static void expect_same_units(const struct step *a, const struct step *b, unsigned first_unit)
{
    assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
    for (unsigned unit = first_unit; unit < TINY_UNITS; unit++) {
        backend_case("gradients of unit %u", unit);
        assert_same(a->gradients[unit], b->gradients[unit], tiny.layouts[unit].count);
    }
}

/* One stage, one slot, one micro-batch after another. */
static struct step reference_step(void)
{
    struct step step;
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);
    tiny_zero_gradients(&tiny);
    for (unsigned micro = 0; micro < TINY_MICROS; micro++) {
        run_whole(stage, 0, micro);
        step.losses[micro] = stage_loss_sum(stage, 0);
    }
    stage_free(stage);
    take_gradients(&step);
    return step;
}

struct pipeline {
    struct stage *stages[TINY_UNITS];
    unsigned first_units[TINY_UNITS + 1]; /* one past the last stage: TINY_UNITS */
    unsigned stage_count;
};

static void pipeline_forward(struct pipeline *pipeline, unsigned slot, unsigned micro)
{
    for (unsigned k = 0; k < pipeline->stage_count; k++) {
        struct stage *stage = pipeline->stages[k];
        if (k > 0)
            tiny.kernel->copy(tiny.device, stage_input(stage, slot),
                              stage_output(pipeline->stages[k - 1], slot),
                              stage_boundary_bytes(stage));
        stage_forward(stage, slot, tiny.weights + pipeline->first_units[k], tiny.tokens[micro],
                      tiny.targets[micro], true, LOSS_SCALE);
    }
}

static void unit_backward(struct stage *stage, unsigned slot, unsigned unit,
                          bool want_input_gradient)
{
    if (stage_splits_unit(stage, unit))
        stage_backward_input(stage, slot, unit, tiny.weights[unit], want_input_gradient);
    else
        stage_backward_unit(stage, slot, unit, tiny.weights[unit], tiny.gradients[unit],
                            want_input_gradient);
}

static void pipeline_backward(struct pipeline *pipeline, unsigned slot, unsigned first_trained)
{
    for (unsigned k = pipeline->stage_count; k-- > 0;) {
        struct stage *stage = pipeline->stages[k];
        unsigned end = pipeline->first_units[k + 1];
        unsigned first = MAX(pipeline->first_units[k], first_trained);
        if (end <= first)
            return;
        if (k + 1 < pipeline->stage_count)
            tiny.kernel->copy(tiny.device, stage_output_gradient(stage),
                              stage_input_gradient(pipeline->stages[k + 1]),
                              stage_boundary_bytes(stage));
        for (unsigned unit = end; unit-- > first;)
            unit_backward(stage, slot, unit, unit > first_trained);
    }
}

static struct stage *part_stage(struct stage_options options)
{
    struct stage *stage = NULL;
    struct error error = {0};

    options.kernel = tiny.kernel;
    options.device = tiny.device;
    options.spec = tiny.spec;
    if (stage_new(&options, &stage, &error) < 0)
        fail_msg("%s", error.text);
    return stage;
}

/* @cuts: bit i set, unit i begins a new stage */
static struct pipeline pipeline_of(unsigned cuts, bool splits, enum stage_recompute recompute)
{
    struct pipeline pipeline = {.stage_count = 1};

    for (unsigned unit = 1; unit < TINY_UNITS; unit++)
        if (cuts & 1u << unit)
            pipeline.first_units[pipeline.stage_count++] = unit;
    pipeline.first_units[pipeline.stage_count] = TINY_UNITS;
    for (unsigned k = 0; k < pipeline.stage_count; k++)
        pipeline.stages[k] = part_stage((struct stage_options){
            .first_unit = pipeline.first_units[k],
            .unit_count = pipeline.first_units[k + 1] - pipeline.first_units[k],
            .batch = TINY_BATCH,
            .slots = TINY_MICROS,
            .splits = splits,
            .recompute = recompute});
    tiny_zero_gradients(&tiny);
    return pipeline;
}

static void pipeline_done(const struct pipeline *pipeline)
{
    for (unsigned k = 0; k < pipeline->stage_count; k++)
        stage_free(pipeline->stages[k]);
}

/* All forwards run before the backwards. */
static struct step pipelined_step(unsigned cuts, unsigned first_trained)
{
    struct step step;
    struct pipeline pipeline = pipeline_of(cuts, false, STAGE_KEEP_ALL);

    for (unsigned micro = 0; micro < TINY_MICROS; micro++)
        pipeline_forward(&pipeline, micro, micro);
    for (unsigned micro = 0; micro < TINY_MICROS; micro++) {
        pipeline_backward(&pipeline, micro, first_trained);
        step.losses[micro] = stage_loss_sum(pipeline.stages[pipeline.stage_count - 1], micro);
    }
    pipeline_done(&pipeline);
    take_gradients(&step);
    return step;
}

static void test_every_cut_gives_the_same_bits(void **state)
{
    (void)state;
    struct step want = reference_step();
    for (unsigned cuts = 0; cuts < 1u << TINY_UNITS; cuts += 2) {
        struct step step = pipelined_step(cuts, 0);
        expect_same_units(&step, &want, 0);
        step_done(&step);
    }
    step_done(&want);
}

/* All gradients of weights come at the end. */
static struct step deferred_step(unsigned cuts, unsigned first_trained,
                                 enum stage_recompute recompute)
{
    struct step step;
    struct pipeline pipeline = pipeline_of(cuts, true, recompute);
    for (unsigned micro = 0; micro < TINY_MICROS; micro++) {
        pipeline_forward(&pipeline, micro, micro);
        step.losses[micro] = stage_loss_sum(pipeline.stages[pipeline.stage_count - 1], micro);
        pipeline_backward(&pipeline, micro, first_trained);
    }
    for (unsigned micro = 0; micro < TINY_MICROS; micro++)
        for (unsigned k = 0, unit = first_trained; unit < TINY_UNITS - 1; unit++) {
            while (pipeline.first_units[k + 1] <= unit)
                k++;
            if (stage_splits_unit(pipeline.stages[k], unit))
                stage_backward_weight(pipeline.stages[k], micro, unit, tiny.gradients[unit]);
        }
    pipeline_done(&pipeline);
    take_gradients(&step);
    return step;
}

static void test_deferred_weights_give_the_same_bits(void **state)
{
    (void)state;
    struct step want = reference_step();
    for (unsigned i = 0; i < (TINY_UNITS - 1) << (TINY_UNITS - 1); i++) {
        unsigned cuts = i << 1 & ((1u << TINY_UNITS) - 1), trained = i >> (TINY_UNITS - 1);
        struct step step = deferred_step(cuts, trained, (enum stage_recompute)(i % 3));
        expect_same_units(&step, &want, trained);
        step_done(&step);
    }
    step_done(&want);
}

static void expect_zero(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(values[i] == 0.0f);
}

static void test_frozen_units_change_nothing_above(void **state)
{
    (void)state;
    struct step want = reference_step();
    for (unsigned first_trained = 1; first_trained < TINY_UNITS; first_trained++) {
        for (unsigned cuts = 0; cuts < 1u << TINY_UNITS; cuts += 6) {
            struct step step = pipelined_step(cuts, first_trained);
            expect_same_units(&step, &want, first_trained);
            for (unsigned unit = 0; unit < first_trained; unit++)
                expect_zero(step.gradients[unit], tiny.layouts[unit].count);
            step_done(&step);
        }
    }
    step_done(&want);
}

static void test_gradients_accumulate(void **state)
{
    (void)state;
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);
    struct step apart[2], together;

    for (unsigned micro = 0; micro < 2; micro++) {
        tiny_zero_gradients(&tiny);
        run_whole(stage, 0, micro);
        take_gradients(&apart[micro]);
    }
    tiny_zero_gradients(&tiny);
    run_whole(stage, 0, 0);
    run_whole(stage, 0, 1);
    take_gradients(&together);
    for (unsigned unit = 0; unit < TINY_UNITS; unit++)
        for (size_t i = 0; i < tiny.layouts[unit].count; i++)
            expect_close((double)together.gradients[unit][i],
                         (double)apart[0].gradients[unit][i] + (double)apart[1].gradients[unit][i],
                         1e-6);
    step_done(&apart[0]);
    step_done(&apart[1]);
    step_done(&together);
    stage_free(stage);
}

static void test_padding_stays_zero(void **state)
{
    (void)state;
    struct step step = reference_step();
    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        const struct unit_layout *layout = &tiny.layouts[unit];
        for (unsigned i = 0; i < layout->tensor_count; i++) {
            const struct unit_tensor *tensor = &layout->tensors[i];
            size_t end =
                i + 1 < layout->tensor_count ? layout->tensors[i + 1].offset : layout->count;
            size_t used = tensor->offset + tensor->count;
            expect_zero(step.gradients[unit] + used, end - used);
        }
    }
    step_done(&step);
}

/* ---- computing again instead of keeping ---- */

/* A step of the whole model whose first @frozen units have no backward. */
static struct step lean_step(enum stage_recompute recompute, unsigned frozen)
{
    struct step step;
    struct stage *stage = part_stage((struct stage_options){.unit_count = TINY_UNITS,
                                                            .batch = TINY_BATCH,
                                                            .slots = TINY_MICROS,
                                                            .frozen = frozen,
                                                            .recompute = recompute});

    tiny_zero_gradients(&tiny);
    for (unsigned micro = 0; micro < TINY_MICROS; micro++) {
        for (unsigned sample = TINY_BATCH; frozen && sample-- > 0;) /* any order */
            stage_forward_frozen(stage, micro, sample, 0, tiny.weights,
                                 tiny.tokens[micro] + sample * TINY_CONTEXT);
        stage_forward(stage, micro, tiny.weights, tiny.tokens[micro], tiny.targets[micro], true,
                      LOSS_SCALE);
        step.losses[micro] = stage_loss_sum(stage, micro);
    }
    for (unsigned micro = 0; micro < TINY_MICROS; micro++)
        for (unsigned unit = TINY_UNITS; unit-- > frozen;)
            stage_backward_unit(stage, micro, unit, tiny.weights[unit], tiny.gradients[unit],
                                unit > frozen);
    stage_free(stage);
    take_gradients(&step);
    return step;
}

/* The same step by two stages that know of no frozen units: the lower one has one sample at a time
 * for itself, the upper one the micro-batch. */
static struct step split_step(unsigned frozen)
{
    struct step step;
    struct stage *lower =
        part_stage((struct stage_options){.unit_count = frozen, .batch = 1, .slots = 1});
    struct stage *upper = part_stage((struct stage_options){
        .first_unit = frozen, .unit_count = TINY_UNITS - frozen, .batch = TINY_BATCH, .slots = 1});

    tiny_zero_gradients(&tiny);
    for (unsigned micro = 0; micro < TINY_MICROS; micro++) {
        for (unsigned sample = 0; sample < TINY_BATCH; sample++) {
            stage_forward(lower, 0, tiny.weights, tiny.tokens[micro] + sample * TINY_CONTEXT, NULL,
                          false, 0);
            tiny.kernel->copy(tiny.device,
                              (char *)stage_input(upper, 0) + sample * stage_boundary_bytes(lower),
                              stage_output(lower, 0), stage_boundary_bytes(lower));
        }
        stage_forward(upper, 0, tiny.weights + frozen, tiny.tokens[micro], tiny.targets[micro],
                      true, LOSS_SCALE);
        step.losses[micro] = stage_loss_sum(upper, 0);
        for (unsigned unit = TINY_UNITS; unit-- > frozen;)
            stage_backward_unit(upper, 0, unit, tiny.weights[unit], tiny.gradients[unit],
                                unit > frozen);
    }
    stage_free(lower);
    stage_free(upper);
    take_gradients(&step);
    return step;
}

/* Frozen units overwrite their shared memory in every forward: it must not be memory of a trained
 * unit. A frozen output follows from its sample alone. */
static void test_frozen_units_compute_samples_and_leave_the_others_alone(void **state)
{
    (void)state;
    for (unsigned frozen = 1; frozen < TINY_UNITS; frozen++) {
        struct step want = split_step(frozen);
        for (int recompute = STAGE_KEEP_ALL; recompute <= STAGE_RECOMPUTE_ALL; recompute++) {
            struct step step = lean_step((enum stage_recompute)recompute, frozen);
            expect_same_units(&step, &want, frozen);
            step_done(&step);
        }
        step_done(&want);
    }
}

/* All forwards before all backwards: a slot's kept activations must survive the other slots. */
static void test_recomputing_gives_the_same_bits(void **state)
{
    (void)state;
    struct step want = reference_step();
    for (int recompute = STAGE_KEEP_ALL; recompute <= STAGE_RECOMPUTE_ALL; recompute++) {
        struct step step = lean_step((enum stage_recompute)recompute, 0);
        expect_same_units(&step, &want, 0);
        step_done(&step);
    }
    step_done(&want);
}

/* ---- the GPU's kernels, in the emulator and on a GPU ---- */

static double cosine(const float *a, const float *b, size_t count)
{
    double product = 0, a_square = 0, b_square = 0;
    for (size_t i = 0; i < count; i++) {
        product += (double)a[i] * (double)b[i];
        a_square += (double)a[i] * (double)a[i];
        b_square += (double)b[i] * (double)b[i];
    }
    return product / sqrt(a_square * b_square);
}

/* Compare all losses and the gradients of all units before any of them fails the test: the right
 * ones help to locate the wrong one. */
static void expect_near_step(const struct step *step, const struct step *want, const char *where,
                             double tolerance)
{
    unsigned wrong = 0;

    for (unsigned micro = 0; micro < TINY_MICROS; micro++) {
        double off = fabs(step->losses[micro] / want->losses[micro] - 1.0);
        wrong += !(off <= tolerance);
        if (!(off <= tolerance))
            print_error("WRONG: %s, loss of micro-batch %u: is %.9g, not %.9g\n", where, micro,
                        step->losses[micro], want->losses[micro]);
    }
    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        double apart =
            1.0 - cosine(step->gradients[unit], want->gradients[unit], tiny.layouts[unit].count);
        wrong += !(fabs(apart) <= tolerance);
        if (!(fabs(apart) <= tolerance))
            print_error("WRONG: %s, gradients of unit %u of %u: 1 - cosine is %.3g\n", where, unit,
                        TINY_UNITS, apart);
    }
    if (wrong > 0)
        fail_msg("%s: a step is not near the CPU's", where);
}

#define ROWS_COMPARED 4

/* Rows of the stream before and after the lowest MLP. */
static float *reference_rows(void)
{
    size_t count = ROWS_COMPARED * (size_t)tiny.spec->width;
    struct stage *stage = tiny_stage(&tiny, 0, 3, 1);
    float *rows = calloc(2, count * sizeof(float));

    assert_non_null(rows);
    stage_forward(stage, 0, tiny.weights, tiny.tokens[0], NULL, false, 0.0f);
    stage_rows(stage, 0, 2, ROWS_COMPARED, rows, rows + count);
    stage_free(stage);
    return rows;
}

static void expect_near_rows(const float *rows, const float *want, const char *where,
                             double tolerance)
{
    size_t count = 2 * ROWS_COMPARED * (size_t)tiny.spec->width;
    double apart = 1.0 - cosine(rows, want, count);

    if (!(fabs(apart) <= tolerance))
        fail_msg("%s: rows are not near the CPU's: 1 - cosine is %.3g", where, apart);
}

/* Near the CPU's step; the same bits on another cut, when computed again, with deferred weights. */
static void check_kernels(const struct kernel *kernel, const char *where, double tolerance)
{
    struct tiny_model on_cpu = tiny;
    struct step want = reference_step(), step, again, cut, deferred;
    float *want_rows = reference_rows(), *rows;

    tiny_open_on(&tiny, on_cpu.spec, kernel);
    step = reference_step();
    rows = reference_rows();
    again = lean_step(STAGE_RECOMPUTE_ALL, 0);
    cut = pipelined_step(1u << 2 | 1u << 5, 0);
    deferred = deferred_step(1u << 2 | 1u << 5, 0, STAGE_KEEP_ALL);
    expect_near_step(&step, &want, where, tolerance);
    expect_near_rows(rows, want_rows, where, tolerance);
    expect_same_units(&again, &step, 0);
    expect_same_units(&cut, &step, 0);
    expect_same_units(&deferred, &step, 0);
    free(want_rows);
    free(rows);
    step_done(&want);
    step_done(&step);
    step_done(&again);
    step_done(&cut);
    step_done(&deferred);
    tiny_close(&tiny);
    tiny = on_cpu;
}

static void test_emulated_in_f32(void **state)
{
    (void)state;
    if (EMULATOR_JUMPS_ARE_SLOW || backend_gpu_alone())
        skip();
    check_kernels(firn_cuda_backend()->f32, "emulator f32", 1e-5);
}

static void test_emulated_in_tf32(void **state)
{
    (void)state;
    if (EMULATOR_JUMPS_ARE_SLOW || backend_gpu_alone())
        skip();
    check_kernels(firn_cuda_backend()->tf32, "emulator tf32", 1e-3);
}

static void test_emulated_in_bf16(void **state)
{
    (void)state;
    if (EMULATOR_JUMPS_ARE_SLOW || backend_gpu_alone())
        skip();
    check_kernels(firn_cuda_backend()->bf16, "emulator bf16", 1e-2);
}

static void check_gpu(enum kernel_precision precision, const char *where, double tolerance)
{
    const struct kernel *kernel = backend_gpu(precision);

    if (!kernel)
        skip();
    check_kernels(kernel, where, tolerance);
}

static void test_gpu_in_f32(void **state)
{
    (void)state;
    check_gpu(KERNEL_PRECISION_F32, "GPU f32", 1e-5);
}

static void test_gpu_in_tf32(void **state)
{
    (void)state;
    check_gpu(KERNEL_PRECISION_TF32, "GPU tf32", 1e-3);
}

static void test_gpu_in_bf16(void **state)
{
    (void)state;
    check_gpu(KERNEL_PRECISION_BF16, "GPU bf16", 1e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_and_loss),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_every_cut_gives_the_same_bits),
        cmocka_unit_test(test_deferred_weights_give_the_same_bits),
        cmocka_unit_test(test_frozen_units_change_nothing_above),
        cmocka_unit_test(test_gradients_accumulate),
        cmocka_unit_test(test_padding_stays_zero),
        cmocka_unit_test(test_recomputing_gives_the_same_bits),
        cmocka_unit_test(test_frozen_units_compute_samples_and_leave_the_others_alone),
        cmocka_unit_test(test_emulated_in_f32),
        cmocka_unit_test(test_emulated_in_tf32),
        cmocka_unit_test(test_emulated_in_bf16),
        cmocka_unit_test(test_gpu_in_f32),
        cmocka_unit_test(test_gpu_in_tf32),
        cmocka_unit_test(test_gpu_in_bf16),
    };
    const struct CMUnitTest scaled[] = {
        /* other angles, the same work */
        cmocka_unit_test(test_logits_and_loss),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_every_cut_gives_the_same_bits),
    };
    static const struct {
        const char *name;
        enum tiny_kind kind;
    } groups[] = {{"gpt2", TINY_GPT2},   {"llama", TINY_LLAMA},   {"qwen2", TINY_QWEN2},
                  {"qwen3", TINY_QWEN3}, {"llama3", TINY_LLAMA3}, {"linear", TINY_LINEAR}};
    int failed = 0;

    for (size_t i = 0; i < ARRAY_COUNT(groups); i++) {
        kind = groups[i].kind;
        failed += kind == TINY_LLAMA3 || kind == TINY_LINEAR
                      ? cmocka_run_group_tests_name(groups[i].name, scaled, set_up, tear_down)
                      : cmocka_run_group_tests_name(groups[i].name, tests, set_up, tear_down);
    }
    return failed;
}
