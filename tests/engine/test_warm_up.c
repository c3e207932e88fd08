/*
 * A warm-up changes no bit of the steps after it, and these steps use nothing for the first time:
 * libraries have chosen the algorithms of all shapes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bench/lib/rig.h"
#include "emulator/emulator.h"
#include "kernels/cuda/backend.h"

#define STEPS     2
#define TEXT_SIZE 16384

struct run {
    double losses[STEPS];
    unsigned kernels;                         /* first launched by the steps */
    char before[TEXT_SIZE], after[TEXT_SIZE]; /* the chosen algorithms */
};

static void train(const struct kernel *kernel, bool warm, bool freezes, struct run *ret_run)
{
    const struct rig_options options = {.layers = 2,
                                        .width = 16,
                                        .heads = 2,
                                        .context = 8,
                                        .vocab = 64,
                                        .micro_batch = 2,
                                        .lanes = 2,
                                        .kernel = kernel,
                                        .warm = warm};
    struct rig *rig = rig_open(&options);

    if (freezes) {
        rig->spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
        rig->spec.elastic.freeze.alpha = 0.5;
        rig->spec.elastic.freeze.every = 1;
        rig->spec.elastic.freeze.keep_active = 1;
    }
    kernel->describe(rig->device, ret_run->before, TEXT_SIZE);
    unsigned kernels = emulator_kernels();
    for (unsigned step = 0; step < STEPS; step++) {
        if (engine_stale(rig->engine))
            rig_renew(rig);
        rig_step(rig, NULL);
        ret_run->losses[step] = rig->down->record.lane_losses[0] + rig->down->record.lane_losses[1];
    }
    ret_run->kernels = emulator_kernels() - kernels;
    kernel->describe(rig->device, ret_run->after, TEXT_SIZE);
    rig_close(rig);
}

/* This test must be the first: the emulator counts for the whole process. */
static void test_a_step_launches_no_kernel_for_the_first_time(void **state)
{
    static struct run run;

    (void)state;
    train(firn_cuda_backend()->bf16, true, false, &run);
    assert_int_equal(run.kernels, 0);
    train(firn_cuda_backend()->f32, false, false, &run);
    assert_true(run.kernels > 0);
}

static void test_the_bits_are_the_same(void **state)
{
    static struct run cold, warm;
    const struct kernel *kernels[] = {firn_cuda_backend()->bf16, firn_cuda_backend()->f32};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        train(kernels[i % 2], false, i < 2, &cold);
        train(kernels[i % 2], true, i < 2, &warm);
        assert_memory_equal(cold.losses, warm.losses, sizeof(cold.losses));
    }
}

static void test_a_step_chooses_nothing_more(void **state)
{
    static struct run cold, warm;

    (void)state;
    train(firn_cuda_backend()->bf16, false, false, &cold);
    assert_string_not_equal(cold.before, cold.after);
    train(firn_cuda_backend()->bf16, true, false, &warm);
    assert_string_equal(warm.before, warm.after);
}

int main(void)
{
    if (EMULATOR_JUMPS_ARE_SLOW) {
        printf("skipped: under the address sanitizer the emulator takes minutes\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_launches_no_kernel_for_the_first_time),
        cmocka_unit_test(test_the_bits_are_the_same),
        cmocka_unit_test(test_a_step_chooses_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
