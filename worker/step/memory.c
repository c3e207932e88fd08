#include "worker/step/memory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "comm/lanes/lane_tree.h"
#include "elastic/job/job_spec.h"
#include "elastic/plan/pipeline_schedule.h"
#include "worker/step/gradients.h"
#include "worker/step/reduction.h"

unsigned memory_settled_units(const struct state *state, const struct plan_layout *layout)
{
    unsigned frozen = MAX(state->freeze.frozen_layers, layout->frozen_layers);

    return model_frozen_units(
        &state->model, freeze_settled(&state->spec->elastic.freeze, &state->spec->model, frozen));
}

/* A unit has parameters, weights if activations are not f32, and moments if it is trained. */
static size_t unit_state_bytes(const struct state *state, const struct plan_layout *layout,
                               unsigned unit)
{
    size_t count = state->units[unit].layout.count, activation = state->kernel->activation_size;
    size_t arrays = unit >= memory_settled_units(state, layout) ? 3 : 1;

    return count * (arrays * sizeof(float) + (activation == sizeof(float) ? 0 : activation));
}

static size_t new_state_bytes(const struct state *state, const struct plan_layout *layout,
                              unsigned rank)
{
    size_t sum = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        if (plan_layout_keeps(layout, rank, unit) && !state->units[unit].held &&
            !state->units[unit].reserved)
            sum += unit_state_bytes(state, layout, unit);
    return sum;
}

/* Return the gradient buffers that a trained unit of this rank's stage takes; 0: no memory. Up to
 * two more for heads, in a step that is divided anew, are taken then: that is rare. */
static unsigned gradient_depth(const struct state *state, const struct plan_layout *layout,
                               unsigned replica)
{
    AUTO_FREE struct step_division *division = malloc(sizeof(*division));
    const struct job_training *training = &state->spec->train;

    if (!division)
        return 0;
    step_division_plan(layout, training->lanes, training->micro_batches_per_lane, division);
    return gradients_depth(division, replica);
}

/* Gradient buffers of the trained units: a stack for this rank's stage, one buffer for the
 * others; SIZE_MAX: no memory. */
static size_t gradients_bytes(const struct state *state, const struct plan_layout *layout,
                              unsigned rank)
{
    unsigned stage = rank % layout->stage_count;
    size_t depth = gradient_depth(state, layout, rank / layout->stage_count), sum = 0;

    if (!depth)
        return SIZE_MAX;
    for (unsigned unit = memory_settled_units(state, layout); unit < state->unit_count; unit++) {
        bool own =
            unit >= layout->stage_first_unit[stage] && unit < layout->stage_first_unit[stage + 1];
        if (plan_layout_keeps(layout, rank, unit))
            sum += arena_part_bytes(state->units[unit].layout.count * sizeof(float)) *
                   (own ? depth : 1);
    }
    return sum;
}

/* The other end's gradient of a tied table, if that end is on another stage. */
static size_t tie_bytes(const struct state *state, const struct plan_layout *layout, unsigned rank)
{
    unsigned stage = rank % layout->stage_count;
    bool an_end = stage == 0 || stage == layout->stage_count - 1;

    return layout->stage_count > 1 && an_end && state->model.tied &&
                   !memory_settled_units(state, layout)
               ? arena_part_bytes(state->units[0].layout.tensors[0].count * sizeof(float))
               : 0;
}

enum stage_recompute memory_recompute(const struct plan_layout *layout)
{
    static const enum stage_recompute recomputations[] = {
        [PLAN_RECOMPUTE_NONE] = STAGE_KEEP_ALL,
        [PLAN_RECOMPUTE_ATTENTION] = STAGE_RECOMPUTE_ATTENTION,
        [PLAN_RECOMPUTE_FULL] = STAGE_RECOMPUTE_ALL,
    };

    return recomputations[layout->recompute];
}

unsigned memory_frozen_part(unsigned first_unit, unsigned unit_count, unsigned frozen_units)
{
    return MIN(frozen_units - MIN(frozen_units, first_unit), unit_count);
}

static size_t activations_bytes(const struct state *state, const struct plan_layout *layout,
                                unsigned rank, unsigned deferred)
{
    unsigned stage = rank % layout->stage_count, replica = rank / layout->stage_count;
    double lanes = plan_layout_lanes_computed(layout, replica);
    struct schedule_position position =
        schedule_position_of(layout, stage, memory_settled_units(state, layout),
                             (unsigned)lround(lanes * state->spec->train.micro_batches_per_lane));
    position.deferred = deferred;
    const struct stage_options options = {
        .kernel = state->kernel,
        .device = state->device,
        .spec = &state->model,
        .first_unit = layout->stage_first_unit[stage],
        .unit_count = layout->stage_first_unit[stage + 1] - layout->stage_first_unit[stage],
        .frozen = memory_frozen_part(layout->stage_first_unit[stage],
                                     layout->stage_first_unit[stage + 1] -
                                         layout->stage_first_unit[stage],
                                     memory_settled_units(state, layout)),
        .batch = state->spec->train.micro_batch,
        .slots = schedule_slots(&position),
        .splits = position.deferred > 0,
        .freezes = state->spec->elastic.freeze.policy != JOB_FREEZE_NONE,
        .recompute = memory_recompute(layout),
    };

    return arena_part_bytes(stage_memory_bytes(&options));
}

/* Add with saturation at SIZE_MAX. */
static size_t add_bytes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

size_t memory_arena_bytes(const struct memory_need *need)
{
    return add_bytes(add_bytes(need->gradient_bytes, need->activation_bytes),
                     need->reduction_bytes);
}

size_t memory_arena_bytes_beside(const struct memory_need *need, size_t kept_bytes)
{
    size_t more = kept_bytes > need->gradient_bytes ? kept_bytes - need->gradient_bytes : 0;

    return add_bytes(memory_arena_bytes(need), more);
}

/* The free and the total memory of the device; memory that the arena keeps is free. */
static size_t free_bytes_of(const struct state *state, size_t *ret_total_bytes)
{
    size_t free_bytes = SIZE_MAX;

    *ret_total_bytes = SIZE_MAX;
    state->kernel->memory(state->device, &free_bytes, ret_total_bytes);
    return add_bytes(free_bytes, arena_held_bytes(state->arena));
}

static bool fits(const struct memory_need *need, size_t free_bytes)
{
    size_t needed_bytes = add_bytes(need->state_bytes, memory_arena_bytes(need));

    return needed_bytes <= free_bytes && needed_bytes < SIZE_MAX;
}

struct memory_need memory_need(const struct state *state, const struct plan_layout *layout,
                               unsigned rank, bool sums_on_device)
{
    unsigned settled = memory_settled_units(state, layout);
    size_t total_bytes, free_bytes = free_bytes_of(state, &total_bytes);
    struct memory_need need = {
        .state_bytes = new_state_bytes(state, layout, rank),
        .gradient_bytes =
            add_bytes(gradients_bytes(state, layout, rank), tie_bytes(state, layout, rank)),
        .reduction_bytes = sums_on_device ? reduction_room_bytes(state, layout, rank, settled) : 0,
        .deferred = schedule_deferred(layout->stage_first_unit, rank % layout->stage_count, settled,
                                      layout->deferred),
    };

    need.activation_bytes = activations_bytes(state, layout, rank, need.deferred);
    while (need.deferred > 0 && !fits(&need, free_bytes))
        need.activation_bytes = activations_bytes(state, layout, rank, --need.deferred);
    return need;
}

int memory_check(const struct state *state, const struct memory_need *need, struct error *error)
{
    const double mib = 1 << 20;
    size_t total_bytes, free_bytes = free_bytes_of(state, &total_bytes);

    if (need->activation_bytes == SIZE_MAX) { /* the choice of algorithms may have failed */
        int status = state->kernel->synchronize(state->device, error);
        return status ? status
                      : error_set(error, -ENOMEM,
                                  "the device has no memory to choose algorithms "
                                  "of attention: give the job more or larger "
                                  "devices, or a smaller train.micro_batch");
    }
    if (fits(need, free_bytes))
        return 0;
    return error_set(error, -ENOMEM,
                     "the device has %.0f MiB free of %.0f MiB, but this worker's part needs %.0f "
                     "MiB more for parameters and optimizer, %.0f MiB for gradients, %.0f MiB for "
                     "activations and %.0f MiB for sums of other replicas: give the job more or "
                     "larger devices, or a smaller train.micro_batch",
                     (double)free_bytes / mib, (double)total_bytes / mib,
                     (double)need->state_bytes / mib, (double)need->gradient_bytes / mib,
                     (double)need->activation_bytes / mib, (double)need->reduction_bytes / mib);
}

bool memory_has_room(const struct state *state, const struct memory_need *need, size_t more_bytes)
{
    size_t total_bytes, free_bytes = free_bytes_of(state, &total_bytes);

    return more_bytes <= free_bytes && fits(need, free_bytes - more_bytes);
}

bool memory_is_short(const struct state *state, const struct memory_need *need)
{
    size_t free_bytes = SIZE_MAX, total_bytes = SIZE_MAX;

    state->kernel->memory(state->device, &free_bytes, &total_bytes);
    return !arena_fits(state->arena, memory_arena_bytes(need)) || need->state_bytes > free_bytes;
}

void memory_make_room(struct state *state, const struct memory_need *need)
{
    if (!arena_mark(state->arena).used_bytes && memory_is_short(state, need))
        arena_drop(state->arena);
}
