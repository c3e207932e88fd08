/* Tests of a stage's promises besides its bits: losses, gates, and the memory that it needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "lib/model/tiny_model.h"

#define LOSS_SCALE (1.0f / (float)TINY_ROWS)

static struct tiny_model tiny;

static enum tiny_kind kind; /* of the group that runs */

static int set_up(void **state)
{
    (void)state;
    tiny_open(&tiny, kind);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_close(&tiny);
    return 0;
}

static void test_evaluation_gives_the_loss_of_training(void **state)
{
    (void)state;
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);

    stage_forward(stage, 0, tiny.weights, tiny.tokens[1], tiny.targets[1], true, LOSS_SCALE);
    double trained = stage_loss_sum(stage, 0);
    stage_forward(stage, 0, tiny.weights, tiny.tokens[1], tiny.targets[1], false, 0.0f);
    double evaluated = stage_loss_sum(stage, 0);
    assert_memory_equal(&trained, &evaluated, sizeof(trained));
    stage_free(stage);
}

/* Of one sample: the rows at 1, 3, 5, 7 eighths of the context. */
static void test_rows_are_those_of_the_stream(void **state)
{
    struct stage *stage = tiny_stage(&tiny, 0, 3, 1), *below = tiny_stage(&tiny, 0, 2, 1);
    size_t width = tiny.spec->width, row_bytes = width * sizeof(float);
    size_t context = tiny.spec->context, batch = stage_boundary_bytes(stage) / row_bytes / context;
    float *before = calloc(8, row_bytes), *after = before + 4 * width;
    const float *streams[] = {stage_output(below, 0), stage_output(stage, 0)};

    (void)state;
    assert_non_null(before);
    stage_forward(below, 0, tiny.weights, tiny.tokens[0], NULL, false, 0.0f);
    stage_forward(stage, 0, tiny.weights, tiny.tokens[0], NULL, false, 0.0f);
    stage_rows(stage, 0, 2, 4, before, after);
    for (size_t i = 0; i < 4; i++) {
        size_t row = i * batch / 4 * context + (2 * i + 1) * context / 8;
        assert_memory_equal(before + i * width, streams[0] + row * width, row_bytes);
        assert_memory_equal(after + i * width, streams[1] + row * width, row_bytes);
    }
    free(before);
    stage_free(below);
    stage_free(stage);
}

/* Let @open units pass. */
struct turnstile {
    unsigned open, asked;
};

static bool pass_turnstile(void *context, unsigned unit)
{
    struct turnstile *turnstile = context;

    assert_int_equal(unit, turnstile->asked++);
    return unit < turnstile->open;
}

/* Units may arrive during the forward: each is asked for before its weights are read. */
static void test_a_gate_is_asked_for_each_unit_and_changes_no_bit(void **state)
{
    struct turnstile turnstile = {.open = TINY_UNITS};
    const struct stage_gate gate = {pass_turnstile, &turnstile};
    struct stage *stage = tiny_stage(&tiny, 0, TINY_UNITS, 1);
    void *weights[TINY_UNITS];

    (void)state;
    stage_forward(stage, 0, tiny.weights, tiny.tokens[1], tiny.targets[1], true, LOSS_SCALE);
    double without = stage_loss_sum(stage, 0);
    stage_set_gate(stage, &gate);
    stage_forward(stage, 0, tiny.weights, tiny.tokens[1], tiny.targets[1], true, LOSS_SCALE);
    double with = stage_loss_sum(stage, 0);
    assert_memory_equal(&with, &without, sizeof(with));
    assert_int_equal(turnstile.asked, TINY_UNITS);

    for (unsigned open = 0; open < TINY_UNITS; open++) {
        turnstile = (struct turnstile){.open = open};
        for (unsigned unit = 0; unit < TINY_UNITS; unit++)
            weights[unit] = unit < open ? tiny.weights[unit] : NULL;
        stage_forward(stage, 0, weights, tiny.tokens[1], tiny.targets[1], true, LOSS_SCALE);
        assert_int_equal(turnstile.asked, open + 1);
    }
    stage_free(stage);
}

static int refuse_to_synchronize(struct kernel_device *device, struct error *error)
{
    (void)device;
    (void)error;
    fail_msg("all queues are waited for");
    return -EIO;
}

/* A snapshot or a message in another queue does not hold up the next micro-batch. */
static void test_a_loss_waits_for_its_own_queue_alone(void **state)
{
    struct kernel table = *tiny.kernel;
    struct tiny_model apart = tiny;

    (void)state;
    table.synchronize = refuse_to_synchronize;
    apart.kernel = &table;
    struct stage *stage = tiny_stage(&apart, 0, TINY_UNITS, 1);
    stage_forward(stage, 0, tiny.weights, tiny.tokens[1], tiny.targets[1], true, LOSS_SCALE);
    assert_true(stage_loss_sum(stage, 0) > 0.0);
    stage_free(stage);
}

/* ---- memory ---- */

/* Options of a stage of the first @unit_count units. */
static struct stage_options options_of(unsigned unit_count, unsigned slots)
{
    return (struct stage_options){.kernel = tiny.kernel,
                                  .device = tiny.device,
                                  .spec = tiny.spec,
                                  .unit_count = unit_count,
                                  .batch = TINY_BATCH,
                                  .slots = slots};
}

static unsigned prepared_batches; /* a bit for each */

static int note_preparation(struct kernel_device *device, struct kernel_attention shape)
{
    (void)device;
    prepared_batches |= 1u << shape.batch;
    return 0;
}

/* Frozen units are computed sample by sample. A device that is full when the first layer freezes
 * has no room to choose an algorithm for that shape. */
static void test_what_frozen_units_need_is_chosen_before_any_is_frozen(void **state)
{
    struct kernel table = *tiny.kernel;
    struct stage_options options = options_of(TINY_UNITS, 1);

    (void)state;
    table.attention_prepare = note_preparation;
    options.kernel = &table;
    prepared_batches = 0;
    (void)stage_memory_bytes(&options);
    assert_int_equal(prepared_batches, 1u << TINY_BATCH);
    options.freezes = true;
    (void)stage_memory_bytes(&options);
    assert_int_equal(prepared_batches, 1u << TINY_BATCH | 1u << 1);
}

static void test_memory_is_foretold(void **state)
{
    (void)state;
    struct stage_options options = options_of(TINY_UNITS, 1);
    size_t one = stage_memory_bytes(&options), kept = 0;
    struct unit_cost cost;

    options.slots = 2;
    size_t slot_bytes = stage_memory_bytes(&options) - one;
    for (unsigned unit = 0; unit < TINY_UNITS; unit++) {
        model_unit_cost(tiny.spec, unit, TINY_BATCH, &cost);
        kept += cost.activation_bytes;
    }
    assert_in_range(slot_bytes, kept, kept + kept / 50); /* alignment apart, the sum of the units */

    struct stage *stage = NULL;
    struct error error = {0};
    options.batch = UINT32_MAX;
    options.slots = UINT32_MAX;
    assert_int_equal(stage_memory_bytes(&options), SIZE_MAX);
    assert_int_equal(stage_new(&options, &stage, &error), -ENOMEM);
    assert_null(stage);
}

static void test_frozen_units_need_no_memory_each(void **state)
{
    (void)state;
    struct stage_options options = options_of(TINY_UNITS - 1, 4);
    options.frozen = TINY_UNITS - 1;
    size_t all = stage_memory_bytes(&options);
    options.unit_count = options.frozen = TINY_UNITS - 3;
    assert_int_equal(stage_memory_bytes(&options), all);
}

static void test_recomputing_needs_less_memory(void **state)
{
    (void)state;
    struct stage_options options = options_of(TINY_UNITS, 4);
    size_t all = stage_memory_bytes(&options);
    options.recompute = STAGE_RECOMPUTE_ATTENTION;
    size_t attention = stage_memory_bytes(&options);
    options.recompute = STAGE_RECOMPUTE_ALL;
    assert_true(attention < all);
    assert_true(stage_memory_bytes(&options) < attention);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluation_gives_the_loss_of_training),
        cmocka_unit_test(test_rows_are_those_of_the_stream),
        cmocka_unit_test(test_a_gate_is_asked_for_each_unit_and_changes_no_bit),
        cmocka_unit_test(test_a_loss_waits_for_its_own_queue_alone),
        cmocka_unit_test(test_what_frozen_units_need_is_chosen_before_any_is_frozen),
        cmocka_unit_test(test_memory_is_foretold),
        cmocka_unit_test(test_frozen_units_need_no_memory_each),
        cmocka_unit_test(test_recomputing_needs_less_memory),
    };
    static const struct {
        const char *name;
        enum tiny_kind kind;
    } groups[] = {
        {"gpt2", TINY_GPT2}, {"llama", TINY_LLAMA}, {"qwen2", TINY_QWEN2}, {"qwen3", TINY_QWEN3}};
    int failed = 0;

    for (size_t i = 0; i < ARRAY_COUNT(groups); i++) {
        kind = groups[i].kind;
        failed += cmocka_run_group_tests_name(groups[i].name, tests, set_up, tear_down);
    }
    return failed;
}
