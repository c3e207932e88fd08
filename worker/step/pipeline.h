/*
 * Forward and backward of one step on this stage, in the order of elastic/plan/pipeline_schedule.h,
 * with their transfers. If the step measures the validation loss, the evaluation comes first.
 *
 * When the last lane's last micro-batch has passed a unit in backward, the reduction of that unit's
 * gradients starts while backward continues with the units below.
 */
#pragma once

#include "worker/step/engine.h"

/** pipeline_open() - open the channels of the stage; -ENOMEM: pipeline_close() is still due */
int pipeline_open(struct engine *engine) CHECK_RESULT;
/** pipeline_close() - wait for all posted messages, so that their memory may be freed */
void pipeline_close(struct engine *engine);

/** pipeline_run() - run the step: fills the lane losses of state->hold; reductions are begun, not
 * finished */
int pipeline_run(struct engine *engine) CHECK_RESULT;

/** pipeline_evaluate() - run only the evaluation, on the current parameters: fills the validation
 * losses of state->hold */
int pipeline_evaluate(struct engine *engine) CHECK_RESULT;
