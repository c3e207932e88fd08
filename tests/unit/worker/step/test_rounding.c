/*
 * Tests of the random numbers that round each tensor's weights: old jobs keep theirs, and no two
 * tensors share one stream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "lib/worker/tiny_state.h"

#include "base/compiler.h"

#define TENSORS_MAX 128

static uint64_t streams[TENSORS_MAX];
static size_t stream_count;

static void note_streams(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                         size_t tensor_count, const struct kernel_adamw *options)
{
    (void)device;
    (void)options;
    assert_true(tensor_count <= TENSORS_MAX);
    for (size_t i = 0; i < tensor_count; i++)
        streams[i] = tensors[i].stream;
    stream_count = tensor_count;
}

/* Apply one optimizer step to all units of a model. */
static void apply(struct job_spec *spec, void (*look)(const struct state *state))
{
    static struct step_record record;
    struct kernel table = *kernel_cpu();
    struct kernel_device *device;
    struct state *state;
    struct error error = {0};
    float *gradients[16] = {0};

    table.adamw = note_streams;
    spec->train.micro_batches_per_lane = spec->train.micro_batch = spec->train.lanes = 1;
    assert_int_equal(table.open(&(struct kernel_options){.thread_count = 1}, &device, &error), 0);
    if (state_new(spec, &table, device, &state, &error) ||
        state_initialize(state, 0, model_unit_count(&state->model), &error))
        fail_msg("%s", error.text);
    assert_true(state->unit_count <= ARRAY_COUNT(gradients));
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        gradients[unit] = calloc(state->units[unit].layout.count, sizeof(float));
    step_record_init(&record, 1, state->unit_count, 1);
    memset(record.unit_squares, 0, sizeof(record.unit_squares));
    record.lane_losses[0] = 1;
    state_apply(state, &record, gradients);
    look(state);
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        free(gradients[unit]);
    state_free(state);
    table.close(device);
}

/* A unit's first six tensors have the streams from six times its number on. */
static void look_at_old(const struct state *state)
{
    size_t at = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        for (unsigned i = 0; i < state->units[unit].layout.tensor_count; i++)
            assert_int_equal(streams[at++], 6 * unit + i);
    assert_int_equal(at, stream_count);
}

static void look_at_distinct(const struct state *state)
{
    unsigned most = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        most = MAX(most, state->units[unit].layout.tensor_count);
    assert_true(most > 6);
    for (size_t i = 0; i < stream_count; i++) {
        assert_true(streams[i] < 1u << 20);
        for (size_t k = 0; k < i; k++)
            assert_true(streams[i] != streams[k]);
    }
}

static struct job_spec make_spec(const char *family)
{
    struct job_spec spec = {.model = {.layers = 3,
                                      .width = 32,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .head_width = 16,
                                      .hidden = 32,
                                      .context = 4,
                                      .vocab = 10,
                                      .rope_theta = 100,
                                      .norm_epsilon = 1e-5}};
    snprintf(spec.model.family, sizeof(spec.model.family), "%s", family);
    return spec;
}

static void test_streams_of_before_stay(void **state)
{
    struct job_spec gpt2 = make_spec("gpt2"), llama = make_spec("llama");

    (void)state;
    apply(&gpt2, look_at_old);
    apply(&llama, look_at_old);
}

static void test_no_two_tensors_share_a_stream(void **state)
{
    struct job_spec biases = make_spec("llama"), norms = make_spec("llama");

    (void)state;
    biases.model.qkv_bias = true;
    norms.model.qk_norm = true;
    apply(&biases, look_at_distinct);
    apply(&norms, look_at_distinct);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_streams_of_before_stay),
                                       cmocka_unit_test(test_no_two_tensors_share_a_stream)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
