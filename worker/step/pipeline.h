/*
 * The forwards and backwards of one step on this stage, in the order of elastic/plan/one_f_one_b.h,
 * with their transfers; evaluation before them when the step measures it.
 *
 * When the last lane's last micro-batch has passed a unit on its way back, that unit's gradients
 * start to travel to the other replicas while backward goes on below.
 */
#pragma once

#include "worker/step/engine.h"

/** pipeline_open() - the passages of the engine's stage; -ENOMEM: pipeline_close() is still due */
int pipeline_open(struct engine *engine) CHECK_RESULT;
/** pipeline_close() - waits out what is posted, so that its memory may go */
void pipeline_close(struct engine *engine);

/** pipeline_run() - fills the lane losses of state->hold; reductions are begun, not finished */
int pipeline_run(struct engine *engine) CHECK_RESULT;

/** pipeline_evaluate() - the evaluation alone, on the parameters as they are: fills the validation
 * losses of state->hold */
int pipeline_evaluate(struct engine *engine) CHECK_RESULT;
