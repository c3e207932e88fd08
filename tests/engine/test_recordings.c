/*
 * The calls of a stage in a step are recorded once and replayed, with the same bits: with several
 * lanes, with layers that freeze, and on a device that cannot record.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/log.h"
#include "bench/lib/rig.h"
#include "emulator/emulator.h"
#include "emulator/fake_cudnn.h"
#include "kernels/cuda/backend.h"

#define STEPS 4
#define LANES 2

struct run {
    struct hash128 digest; /* of all parameters */
    unsigned replays, warnings;
};

static void count_warnings(enum log_level level, const char *message,
                           const struct log_field *fields, size_t field_count, void *context)
{
    struct run *run = context;
    (void)message;
    (void)fields;
    (void)field_count;
    run->warnings += level == LOG_LEVEL_WARNING;
}

static void take_digest(const struct rig *rig, struct run *run)
{
    const struct state *state = rig->state;
    struct error error = {0};
    struct hash_stream *hash = hash_stream_new();

    assert_non_null(hash);
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        size_t size_bytes = state->units[unit].layout.count * sizeof(float);
        AUTO_FREE float *values = malloc(size_bytes);
        assert_non_null(values);
        state->kernel->download(state->device, values, state->units[unit].parameters, size_bytes);
        assert_int_equal(state->kernel->synchronize(state->device, &error), 0);
        hash_stream_add(hash, values, size_bytes);
    }
    run->digest = hash_stream_result(hash);
    hash_stream_free(hash);
}

static struct run train(const struct kernel *kernel, const char *graphs)
{
    const struct rig_options options = {.layers = 2,
                                        .width = 16,
                                        .heads = 2,
                                        .context = 8,
                                        .vocab = 64,
                                        .micro_batch = 1,
                                        .lanes = LANES,
                                        .kernel = kernel};
    unsigned before = emulator_replays();
    struct run run = {.replays = 0};

    assert_int_equal(setenv("FIRN_CUDA_GRAPHS", graphs, 1), 0);
    log_set_sink(count_warnings, &run);
    struct rig *rig = rig_open(&options);
    rig->spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
    rig->spec.elastic.freeze.alpha = 0.5;
    rig->spec.elastic.freeze.every = 2;
    rig->spec.elastic.freeze.keep_active = 1;
    for (unsigned step = 0; step < STEPS; step++) {
        if (engine_stale(rig->engine))
            rig_renew(rig);
        rig_step(rig, NULL);
    }
    assert_int_equal(rig->state->freeze.frozen_layers, 1);
    take_digest(rig, &run);
    rig_close(rig);
    log_set_sink(NULL, NULL);
    run.replays = emulator_replays() - before;
    return run;
}

static void check(const struct kernel *kernel)
{
    struct run called = train(kernel, "off"), replayed = train(kernel, "on");

    assert_true(hash128_equal(called.digest, replayed.digest));
    assert_int_equal(called.replays, 0);
    assert_int_equal(called.warnings, 0);
    /* All forwards but the first of each of two engines, and backward. */
    assert_true(replayed.replays > STEPS * LANES - 2);
    assert_int_equal(replayed.warnings, 0);
}

static void test_replays_have_the_same_bits(void **state)
{
    (void)state;
    check(firn_cuda_backend()->bf16);
    check(firn_cuda_backend()->f32);
}

static void test_what_cannot_be_recorded_is_called(void **state)
{
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    struct run want = train(kernel, "off");

    (void)state;
    emulator_captures_fail(true);
    struct run run = train(kernel, "on");
    emulator_captures_fail(false);
    assert_true(hash128_equal(run.digest, want.digest));
    assert_int_equal(run.replays, 0);
    assert_int_equal(run.warnings, 2); /* once an engine */
}

/* A recorded step contains cuDNN's attention: each replay computes the same as a direct call,
 * equally often, on the memory's content at that time. */
static void test_cudnn_is_recorded(void **state)
{
    const struct kernel *kernel = firn_cuda_backend()->bf16;
    void *library = dlopen(FAKE_CUDNN, RTLD_NOW);
    fake_cudnn_behave_function behave;
    fake_cudnn_runs_function runs;

    (void)state;
    assert_non_null(library);
    *(void **)&behave = dlsym(library, "fake_cudnn_behave");
    *(void **)&runs = dlsym(library, "fake_cudnn_runs");
    behave(FAKE_CUDNN_SOUND, (struct fake_cudnn_device){emulator_reach_memory, emulator_take_call});
    assert_int_equal(setenv("FIRN_CUDNN_LIBRARY", FAKE_CUDNN, 1), 0);
    unsigned before = runs();
    struct run called = train(kernel, "off");
    unsigned of_calls = runs() - before;
    struct run replayed = train(kernel, "on");
    unsigned of_replays = runs() - before - of_calls;
    assert_int_equal(unsetenv("FIRN_CUDNN_LIBRARY"), 0);
    /* more than its trials: two layers forward and backward, each lane of each step, less the
     * frozen layers */
    assert_true(of_calls > 2 * STEPS * LANES);
    assert_int_equal(of_replays, of_calls);
    assert_true(replayed.replays > STEPS * LANES - 2);
    assert_int_equal(replayed.warnings, 0);
    assert_true(hash128_equal(called.digest, replayed.digest));
    dlclose(library);
}

int main(void)
{
    if (EMULATOR_JUMPS_ARE_SLOW) {
        printf("skipped: under the address sanitizer the emulator takes minutes\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays_have_the_same_bits),
        cmocka_unit_test(test_what_cannot_be_recorded_is_called),
        cmocka_unit_test(test_cudnn_is_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
