/* A generation's host memory is not zeroed for the next generation: an engine computes the same
 * bits for any earlier content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/lib/rig.h"

#define STEPS 6

struct outcome {
    struct step_record records[STEPS];
    float *parameters; /* of all units, one after another */
    size_t count;
};

/* Fill the whole arena with NaN, and make the engine anew in it. */
static void renew_on_dirty_memory(struct rig *rig)
{
    struct arena *arena = rig->state->arena;
    struct error error = {0};
    void *memory;

    engine_free(rig->engine);
    rig->engine = NULL;
    size_t size_bytes = arena_held_bytes(arena);
    assert_int_equal(arena_begin(arena, size_bytes, &error), 0);
    assert_int_equal(arena_take(arena, size_bytes, &memory), 0);
    memset(memory, 0xff, size_bytes);
    arena_end(arena);
    rig_renew(rig);
}

static void keep_parameters(const struct state *state, struct outcome *outcome)
{
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        outcome->count += state->units[unit].layout.count;
    float *at = outcome->parameters = calloc(outcome->count, sizeof(*at));
    assert_non_null(at);
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        memcpy(at, state->units[unit].parameters, state->units[unit].layout.count * sizeof(*at));
        at += state->units[unit].layout.count;
    }
}

static struct outcome train(void (*renew)(struct rig *rig))
{
    const struct rig_options options = {.layers = 3,
                                        .width =
                                            24, /* like the vocabulary, no multiple of a vector */
                                        .heads = 2,
                                        .context = 9,
                                        .vocab = 67,
                                        .micro_batch = 3,
                                        .lanes = 3,
                                        .thread_count = 1};
    struct rig *rig = rig_open(&options);
    struct outcome outcome = {0};

    rig->spec.elastic.freeze.policy = JOB_FREEZE_SCHEDULE;
    rig->spec.elastic.freeze.alpha = 0.5;
    rig->spec.elastic.freeze.every = 2;
    rig->spec.elastic.freeze.keep_active = 1;
    renew(rig);
    for (unsigned step = 0; step < STEPS; step++) {
        if (engine_stale(rig->engine))
            renew(rig);
        rig_step(rig, NULL);
        outcome.records[step] = rig->down->record;
    }
    keep_parameters(rig->state, &outcome);
    rig_close(rig);
    return outcome;
}

static void test_an_engine_reads_nothing_that_it_has_not_written(void **state)
{
    struct outcome clean = train(rig_renew), dirty = train(renew_on_dirty_memory);

    (void)state;
    for (unsigned i = 0; i < STEPS; i++) {
        assert_memory_equal(clean.records[i].unit_squares, dirty.records[i].unit_squares,
                            clean.records[i].unit_count * sizeof(double));
        assert_memory_equal(clean.records[i].lane_losses, dirty.records[i].lane_losses,
                            clean.records[i].lane_count * sizeof(double));
    }
    assert_int_equal(clean.count, dirty.count);
    assert_memory_equal(clean.parameters, dirty.parameters, clean.count * sizeof(float));
    free(clean.parameters);
    free(dirty.parameters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_engine_reads_nothing_that_it_has_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
