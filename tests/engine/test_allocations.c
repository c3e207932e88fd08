/* A made engine allocates no more device memory or pinned memory: neither in a step, nor when
   layers freeze and the engine is made anew. The emulator counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "bench/lib/rig.h"
#include "emulator/emulator.h"
#include "kernels/cuda/backend.h"

#define STEPS 4

static void test_a_step_takes_no_memory(void **state)
{
    const struct rig_options options = {.layers = 3,
                                        .width = 16,
                                        .heads = 2,
                                        .context = 8,
                                        .vocab = 64,
                                        .micro_batch = 1,
                                        .lanes = 2,
                                        .kernel = firn_cuda_backend()->bf16};
    struct rig *rig = rig_open(&options);
    unsigned before = emulator_allocations(), renewed = 0;

    (void)state;
    rig->spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
    rig->spec.elastic.freeze.alpha = 0.5;
    rig->spec.elastic.freeze.every = 2;
    rig->spec.elastic.freeze.keep_active = 1;
    for (unsigned step = 0; step < STEPS; step++) {
        if (engine_stale(rig->engine)) {
            rig_renew(rig);
            renewed++;
        }
        rig_step(rig, NULL);
    }
    assert_int_equal(renewed, 1);
    assert_int_equal(emulator_allocations(), before);
    rig_close(rig);
}

int main(void)
{
    if (EMULATOR_JUMPS_ARE_SLOW) {
        printf("skipped: under the address sanitizer the emulator takes minutes\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_step_takes_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
