/*
 * The optimizer: AdamW with decoupled weight decay (Loshchilov and Hutter, ICLR 2019) on every unit
 * that this worker trains, after the gradients are clipped by their global norm.
 */
#pragma once

#include "worker/state/state.h"

/**
 * optimizer_step() - step parameters and moments by @gradients
 * @record: complete and finite; the norm that clips and the step that sets the learning rate
 * @gradients: per unit of the model: its reduced gradient, device, flat f32; NULL: not on this
 * worker
 *
 * Frozen units stay as they are. The work is queued on the device. Cannot fail.
 */
void optimizer_step(struct state *state, const struct step_record *record, float *const *gradients);
