#include "worker/step/kept_step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/step/reduction.h"

struct kept_step {
    struct state *state; /* borrowed */
    uint64_t step;
    unsigned lanes, micro_batches;
    struct gradients *gradients; /* NULL: handed over, or none */
    struct step_losses *losses;  /* per lane */
    struct copied_sums *copies;  /* NULL: none */
};

/* A device behind a pipeline's link may have computed with data that never arrived or, before
 * digests are compared, with wrong data. */
static bool is_behind_links(const struct engine *engine)
{
    return !engine->state->kernel->host_memory && engine->plan->layout.stage_count > 1;
}

bool kept_step_possible(struct engine *engine, bool has_copies)
{
    struct lane_sum sums[GRADIENTS_SUMS_MAX];
    struct error error = {0};
    unsigned known = 0;

    if (!engine->share.computes || !engine->gradients || !engine->reduction ||
        is_behind_links(engine))
        return false;
    for (unsigned i = 0; i < engine->part.unit_count; i++) {
        unsigned unit = engine->part.first_unit + i;
        if (unit < engine->part.trained_from)
            continue;
        if (reduction_combined(engine->reduction, unit))
            gradients_spoil(engine->gradients, unit);
        known += gradients_sums(engine->gradients, unit, sums);
    }
    return (known > 0 || has_copies) &&
           !engine->state->kernel->synchronize(engine->state->device, &error);
}

static void list_losses_of(const struct engine *engine, struct step_losses *losses)
{
    const struct step_record *hold = &engine->state->hold;

    for (unsigned lane = 0; lane < engine->share.division->lanes; lane++)
        losses[lane] = (struct step_losses){.count = step_record_is_known(hold->lane_losses[lane])
                                                         ? engine->share.loss_counts[lane]
                                                         : 0,
                                            .training = hold->lane_losses[lane],
                                            .validation = hold->lane_validation_losses[lane]};
    if (hold->has_similarities) /* they are not kept: lane 0 is validated again */
        losses[0].validation = step_record_unknown();
}

struct kept_step *kept_step_new(struct engine *engine, struct copied_sums *copies)
{
    unsigned lanes = engine->share.division->lanes;
    struct kept_step *kept = malloc(sizeof(*kept));
    struct step_losses *losses = calloc(lanes, sizeof(*losses));

    if (!kept || !losses) {
        free(kept);
        free(losses);
        copied_sums_free(copies);
        return NULL;
    }
    list_losses_of(engine, losses);
    *kept = (struct kept_step){.state = engine->state,
                               .step = engine->state->hold.step,
                               .lanes = lanes,
                               .micro_batches = engine->share.division->micro_batches,
                               .gradients = engine->gradients,
                               .losses = losses,
                               .copies = copies};
    engine->gradients = NULL;
    gradients_end_arena(kept->gradients);
    return kept;
}

void kept_step_free(struct kept_step *kept)
{
    if (!kept)
        return;
    if (kept->gradients)
        arena_end(kept->state->arena);
    gradients_free(kept->gradients);
    copied_sums_free(kept->copies);
    free(kept->losses);
    free(kept);
}

bool kept_step_is_current(const struct kept_step *kept, const struct state *state)
{
    return kept->step == state->applied_step + 1 && gradients_are_current(kept->gradients);
}

size_t kept_step_arena_bytes(const struct kept_step *kept, const struct plan_layout *layout,
                             unsigned rank, const struct memory_need *need)
{
    unsigned stage = rank % layout->stage_count, first = layout->stage_first_unit[stage];
    unsigned end = layout->stage_first_unit[stage + 1];
    size_t size_bytes = memory_arena_bytes(need), kept_bytes;

    if (!kept || !kept->gradients)
        return size_bytes;
    kept_bytes = arena_mark(kept->state->arena).used_bytes;
    if (gradients_same_units(kept->gradients, first, end - first))
        return memory_arena_bytes_beside(need, kept_bytes);
    return size_bytes > SIZE_MAX - kept_bytes ? SIZE_MAX : size_bytes + kept_bytes;
}

bool kept_step_fits(const struct kept_step *kept, const struct state *state,
                    const struct plan_layout *layout, unsigned rank, const struct memory_need *need)
{
    size_t size_bytes = kept_step_arena_bytes(kept, layout, rank, need);

    return kept_step_is_current(kept, state) && size_bytes < SIZE_MAX &&
           arena_fits(state->arena, size_bytes) &&
           memory_has_room(state, need, size_bytes - memory_arena_bytes(need));
}

/* ---- what is offered and gone on with ---- */

int kept_step_list(const struct kept_step *kept, const struct step_sums_range *range,
                   unsigned source, struct step_sums *sums)
{
    struct lane_sum found[GRADIENTS_SUMS_MAX];
    int status = 0;

    for (unsigned unit = MAX(range->first_unit, state_frozen_units(kept->state));
         unit < range->end_unit; unit++) {
        unsigned count = gradients_sums(kept->gradients, unit, found);
        for (unsigned i = 0; !status && i < count; i++)
            status =
                step_sums_add(sums, &(struct step_sum){.unit = unit,
                                                       .source = source,
                                                       .span = found[i].span,
                                                       .micro_batches = found[i].micro_batches});
    }
    return status;
}

int kept_step_list_losses(const struct kept_step *kept, struct step_sums *sums)
{
    int status = step_sums_make_losses(sums, kept->lanes);

    if (!status)
        memcpy(sums->losses, kept->losses, kept->lanes * sizeof(*kept->losses));
    return status;
}

int kept_step_losses_of(const struct engine *engine, struct step_sums *sums)
{
    int status = step_sums_make_losses(sums, engine->share.division->lanes);

    if (!status)
        list_losses_of(engine, sums->losses);
    return status;
}

const struct copied_sums *kept_step_copies(const struct kept_step *kept)
{
    return kept->copies;
}

struct copied_sums *kept_step_take_copies(struct kept_step *kept)
{
    struct copied_sums *copies = kept->copies;

    kept->copies = NULL;
    return copies;
}

const float *kept_step_sum(const struct kept_step *kept, const struct step_sum *sum)
{
    return gradients_sum(kept->gradients, sum->unit, sum->span);
}

/* A step of which this worker has nothing of its own. */
static struct kept_step *make_empty(struct state *state)
{
    const struct job_training *training = &state->spec->train;
    struct kept_step *kept = calloc(1, sizeof(*kept));
    struct step_losses *losses = calloc(training->lanes, sizeof(*losses));

    if (!kept || !losses) {
        free(kept);
        free(losses);
        return NULL;
    }
    for (unsigned lane = 0; lane < training->lanes; lane++)
        losses[lane].training = losses[lane].validation = step_record_unknown();
    *kept = (struct kept_step){.state = state,
                               .step = state->applied_step + 1,
                               .lanes = training->lanes,
                               .micro_batches = training->micro_batches_per_lane,
                               .losses = losses};
    return kept;
}

int kept_step_adopt_losses(struct kept_step **kept, struct state *state,
                           const struct step_sums *sums)
{
    if (!*kept && sums->count > 0)
        *kept = make_empty(state);
    if (!*kept)
        return sums->count > 0 ? -ENOMEM : 0;
    if (sums->losses)
        memcpy((*kept)->losses, sums->losses, (*kept)->lanes * sizeof(*sums->losses));
    return 0;
}

struct gradients *kept_step_take_gradients(struct kept_step *kept)
{
    struct gradients *gradients = kept->gradients;

    kept->gradients = NULL;
    return gradients;
}

void kept_step_return_gradients(struct kept_step *kept, struct gradients *gradients)
{
    kept->gradients = gradients;
    gradients_end_arena(gradients);
}

void kept_step_restore(const struct kept_step *kept, struct engine *engine)
{
    const struct step_division *division = engine->share.division;
    struct step_record *hold = &engine->state->hold;

    if (!kept || division->step != hold->step || !engine_is_last_stage(engine))
        return;
    for (unsigned lane = 0; lane < kept->lanes; lane++) {
        bool begins = step_division_first(division, lane) == engine->part.replica;
        bool ends = division->owners[lane] == engine->part.replica;
        /* A head from 0 on has the loss from 0 on: a kept one may be of more than the head. */
        if (begins && (ends || division->starts[lane] > 0)) {
            engine->share.loss_counts[lane] = kept->losses[lane].count;
            hold->lane_losses[lane] = kept->losses[lane].training;
        }
        if (ends && hold->evaluated)
            hold->lane_validation_losses[lane] = kept->losses[lane].validation;
    }
}
