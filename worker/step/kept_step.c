#include "worker/step/kept_step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/step/reduction.h"

/* The losses of one lane, on the last stage. */
struct kept_losses {
    unsigned count; /* micro-batches in `training` */
    double training, validation;
};

struct kept_step {
    struct state *state; /* borrowed */
    uint64_t step;
    unsigned lanes, micro_batches;
    bool has_similarities;       /* they are not kept: lane 0 is validated again */
    struct gradients *gradients; /* NULL: handed over */
    struct kept_losses *losses;  /* per lane */
};

/* A device that is behind a pipeline's link may have computed with what never arrived, or, before
 * digests are compared, with what arrived otherwise. */
static bool is_behind_links(const struct engine *engine)
{
    return !engine->state->kernel->host_memory && engine->plan->layout.stage_count > 1;
}

bool kept_step_possible(struct engine *engine)
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
    return known > 0 && !engine->state->kernel->synchronize(engine->state->device, &error);
}

struct kept_step *kept_step_new(struct engine *engine)
{
    const struct step_record *hold = &engine->state->hold;
    unsigned lanes = engine->share.division->lanes;
    struct kept_step *kept = malloc(sizeof(*kept));
    struct kept_losses *losses = calloc(lanes, sizeof(*losses));

    if (!kept || !losses) {
        free(kept);
        free(losses);
        return NULL;
    }
    for (unsigned lane = 0; lane < lanes; lane++)
        losses[lane] = (struct kept_losses){.count = engine->share.loss_counts[lane],
                                            .training = hold->lane_losses[lane],
                                            .validation = hold->lane_validation_losses[lane]};
    *kept = (struct kept_step){.state = engine->state,
                               .step = hold->step,
                               .lanes = lanes,
                               .micro_batches = engine->share.division->micro_batches,
                               .has_similarities = hold->has_similarities,
                               .gradients = engine->gradients,
                               .losses = losses};
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
    free(kept->losses);
    free(kept);
}

bool kept_step_fits(const struct kept_step *kept, const struct state *state,
                    const struct plan_layout *layout, unsigned rank, size_t arena_bytes)
{
    if (rank >= layout->worker_count || kept->step != state->applied_step + 1)
        return false;
    unsigned stage = rank % layout->stage_count, first = layout->stage_first_unit[stage];
    unsigned end = layout->stage_first_unit[stage + 1], unit = first;

    while (unit < end && state->units[unit].held)
        unit++;
    return unit == end && arena_fits(state->arena, arena_bytes) &&
           gradients_same_units(kept->gradients, first, end - first);
}

static const struct lane_sum *find_sum(const struct lane_sum *sums, unsigned count, unsigned lane)
{
    for (unsigned i = 0; i < count; i++)
        if (lane >= sums[i].span.first && lane < sums[i].span.first + sums[i].span.count)
            return &sums[i];
    return NULL;
}

/* Reduce each lane's fact to what @unit has, too. */
static void count_unit(const struct kept_step *kept, unsigned unit, struct lane_fact *facts)
{
    struct lane_sum sums[GRADIENTS_SUMS_MAX];
    unsigned count = gradients_sums(kept->gradients, unit, sums);

    for (unsigned lane = 0; lane < kept->lanes; lane++) {
        const struct lane_sum *sum = find_sum(sums, count, lane);
        facts[lane].micro_batches = MIN(facts[lane].micro_batches, sum ? sum->micro_batches : 0);
        if (sum && sum->span.count > facts[lane].span.count)
            facts[lane].span = sum->span;
    }
}

int kept_step_facts(const struct kept_step *kept, const struct plan_layout *layout, unsigned rank,
                    struct step_facts *ret_facts)
{
    *ret_facts = (struct step_facts){0};
    if (!kept)
        return 0;
    unsigned stage = rank % layout->stage_count;
    bool last = stage == layout->stage_count - 1;
    struct lane_fact *facts = calloc(kept->lanes, sizeof(*facts));
    if (!facts)
        return -ENOMEM;
    for (unsigned lane = 0; lane < kept->lanes; lane++) {
        facts[lane].micro_batches = last ? kept->losses[lane].count : kept->micro_batches;
        facts[lane].validated = last && !(lane == 0 && kept->has_similarities) &&
                                step_record_is_known(kept->losses[lane].validation);
    }
    for (unsigned unit = MAX(layout->stage_first_unit[stage], state_frozen_units(kept->state));
         unit < layout->stage_first_unit[stage + 1]; unit++)
        count_unit(kept, unit, facts);
    ret_facts->lanes = facts;
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

    if (!kept || division->step != hold->step)
        return;
    for (unsigned lane = 0; lane < kept->lanes; lane++) {
        if (division->owners[lane] != engine->part.replica)
            continue;
        engine->share.loss_counts[lane] = kept->losses[lane].count;
        hold->lane_losses[lane] = kept->losses[lane].training;
        if (hold->evaluated)
            hold->lane_validation_losses[lane] = kept->losses[lane].validation;
    }
}
