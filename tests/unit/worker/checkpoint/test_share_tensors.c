/*
 * Tests that exactly one rank writes each tensor of a checkpoint, in any layout, and that shares
 * are even.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/worker/tiny_state.h"

#include "elastic/plan/plan.h"
#include "worker/checkpoint/share_tensors.h"
#include "worker/state/canonical.h"

#define TENSORS_MAX 256

#define RANKS_MAX 16

struct written {
    unsigned times[TENSORS_MAX];  /* by canonical order */
    unsigned writer[TENSORS_MAX]; /* of a frozen unit: rank + 1; 0: none yet */
    size_t most_bytes, fewest_bytes, largest_bytes;
};

static struct plan *plan_of(unsigned unit_count, unsigned stages, unsigned replicas)
{
    struct plan *plan = plan_new();

    plan->layout.stage_count = stages;
    plan->layout.replica_count = replicas;
    plan->layout.worker_count = stages * replicas;
    plan->layout.stage_first_unit = calloc((size_t)stages + 1, sizeof(unsigned));
    for (unsigned i = 0; i <= stages; i++)
        plan->layout.stage_first_unit[i] = i * unit_count / stages;
    return plan;
}

static void note(struct written *written, const struct share_tensors *tensors, unsigned rank)
{
    size_t trained_bytes = 0;

    for (unsigned i = 0; i < tensors->count; i++) {
        const struct checkpoint_tensor *tensor = &tensors->list[i];
        assert_in_range(tensor->order, 0, TENSORS_MAX - 1);
        assert_non_null(tensor->data);
        written->times[tensor->order]++;
        if (!tensor->frozen) {
            trained_bytes += tensor->count * sizeof(float);
            written->largest_bytes = MAX(written->largest_bytes, tensor->count * sizeof(float));
            continue;
        }
        assert_int_equal(tensor->role, MANIFEST_PARAMETER);
        assert_true(written->writer[tensor->unit] == 0 ||
                    written->writer[tensor->unit] == rank + 1);
        written->writer[tensor->unit] = rank + 1;
    }
    written->most_bytes = MAX(written->most_bytes, trained_bytes);
    written->fewest_bytes = MIN(written->fewest_bytes, trained_bytes);
}

/* Check a layout. @left_out: a rank that writes nothing; a rank that does not exist: none. */
static void check_layout(const struct state *state, unsigned stages, unsigned replicas,
                         unsigned left_out)
{
    bool absent[RANKS_MAX] = {0};
    struct plan *plan = plan_of(state->unit_count, stages, replicas);
    struct written all = {.fewest_bytes = SIZE_MAX};

    absent[left_out] = true;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        struct share_tensors tensors;
        if (rank == left_out)
            continue;
        assert_int_equal(share_tensors_of(state, &plan->layout, rank, absent, &tensors), 0);
        note(&all, &tensors, rank);
        share_tensors_done(&tensors);
    }
    for (unsigned order = 0; order < TENSORS_MAX; order++)
        assert_int_equal(all.times[order], order < canonical_count(state));
    if (stages == 1)
        assert_true(all.most_bytes - all.fewest_bytes <= all.largest_bytes);
    plan_free(plan);
}

static void test_every_tensor_has_one_writer(void **state)
{
    struct tiny_state tiny;
    struct error error = {0};

    (void)state;
    for (unsigned frozen = 0; frozen <= 2; frozen++) {
        tiny_state_init(&tiny, false);
        assert_int_equal(state_initialize(tiny.state, 0, tiny.state->unit_count, &error), 0);
        tiny.state->freeze.frozen_layers = frozen;
        for (unsigned stages = 1; stages <= 3; stages++)
            for (unsigned replicas = 1; replicas <= 4; replicas++)
                for (unsigned left_out = replicas > 1 ? 0 : stages * replicas;
                     left_out <= stages * replicas; left_out++)
                    check_layout(tiny.state, stages, replicas, left_out);
        tiny_state_done(&tiny);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tensor_has_one_writer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
