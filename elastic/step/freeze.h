/*
 * Decide when layers freeze: a pure function of committed records, run by every worker.
 *
 * `gradient` is PipeTransformer's rule (He et al., ICML 2021): over the norms accumulated since the
 * last decision, frozen = min(ceil(frozen + alpha * (layers - frozen)), argmin over l >= frozen of
 * |g_l|), where layers count from 1 as in the paper: the layer with the smallest norm is frozen
 * too, so every decision freezes at least one. Ties go to the lowest layer. A step that is skipped
 * because its loss or gradient is not finite does not count. `schedule` is ceil(layers * (1 - (1 -
 * alpha)^t)) at decision t. `budget` freezes as few layers as bring the matrix products of a step
 * down to freeze.budget of those without frozen layers, at most alpha of the trained ones at a
 * time. The cost of a step follows from the model's sizes, so the bits depend on no device and no
 * layout (the planner divides the remaining work anew, and every frozen layer shortens a step).
 * `plasticity` freezes the lowest trained layer when it has calmed down
 * (elastic/step/plasticity.h). All policies stop keep_active layers below the top.
 *
 * A guard holds decisions back: none is made while the last validation loss is above the best one
 * by more than freeze.guard of it. The sums continue, so the next decision counts all steps since
 * the last one, and `schedule` is late by as much. Frozen layers stay frozen.
 *
 * The exception is freeze.thaw: when the last validation loss is above the best one by more than
 * that fraction of it, all layers train again except those of freeze.from_start and, if the head
 * shared the embedding's table, the first one, because the head has its own table by now. Decisions
 * begin anew, as at step 1, when the loss is below that margin again. Moments of thawed layers
 * begin at zero, and so does the count of steps that corrects their bias. The memory of a layer
 * that may thaw is never given away: a job must not fail because of its own loss.
 *
 * freeze.from_start layers are frozen from the beginning under every policy. A decision is made
 * after every step S > freeze.after for which freeze.every divides S - freeze.after. A layer's norm
 * is over its attention and MLP units; embedding and head do not count. The embedding freezes with
 * the first layer, the head never freezes.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/job/job_elasticity.h"
#include "elastic/job/job_model.h"
#include "elastic/step/plasticity.h"
#include "elastic/step/step_record.h"

#define FREEZE_LAYERS_MAX 256

struct freeze_state {
    unsigned frozen_layers;
    uint64_t decisions;                      /* decisions made so far, since the last thaw */
    double layer_squares[FREEZE_LAYERS_MAX]; /* summed since the last decision */
    /* The step after which the layer last thawed, with moments of zero; 0: never. */
    uint64_t layer_thawed[FREEZE_LAYERS_MAX];
    /* Losses, for the guard and for thawing alone; 0: none measured. */
    double best_validation, last_validation;
    struct plasticity plasticity; /* of the layer frozen_layers, for `plasticity` alone */
};

/** freeze_init() - set the state before step 1: no decision made */
void freeze_init(struct freeze_state *state, const struct job_freezing *freezing);

/**
 * freeze_step() - account for the committed step @record, which is complete and has the units of
 * @model
 *
 * The new frozen_layers holds from step record->step + 1 on.
 */
void freeze_step(struct freeze_state *state, const struct job_freezing *freezing,
                 const struct job_model *model, const struct step_record *record);

/** freeze_measures() - return whether @step, the next one, measures the plasticity of the lowest
 * trained layer */
bool freeze_measures(const struct freeze_state *state, const struct job_freezing *freezing,
                     const struct job_model *model, uint64_t step);

/**
 * freeze_settled() - return the number of @frozen_layers frozen layers that never train again: all,
 * unless they may thaw
 */
unsigned freeze_settled(const struct job_freezing *freezing, const struct job_model *model,
                        unsigned frozen_layers);

/** freeze_unit_steps() - return the step number of @unit, from 1, at the job's @step: it counts
 * from the last thaw of its layer */
uint64_t freeze_unit_steps(const struct freeze_state *state, const struct job_model *model,
                           unsigned unit, uint64_t step);

/** freeze_forget_data() - forget losses and similarities, because other data follows */
void freeze_forget_data(struct freeze_state *state);

/**
 * freeze_encode() - encode the state with values as bits; new reference, NULL when out of memory
 */
json_t *freeze_encode(const struct freeze_state *state, unsigned layers);

/**
 * freeze_decode() - decode the state; -EINVAL names the key: more frozen layers than @layers, or
 * not @layers sums
 */
int freeze_decode(const json_t *tree, unsigned layers, struct freeze_state *ret_state,
                  struct error *error) CHECK_RESULT;
