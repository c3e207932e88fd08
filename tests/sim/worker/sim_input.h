/*
 * An unreadable file of the job, such as the folder of `model.from`: on one node or on all nodes,
 * for a while. A worker that must begin from the file refuses the job. The job fails only if all
 * nodes refuse it.
 */
#pragma once

#include "sim/check/sim_check.h"

/** sim_input_draw() - Draw the unreadable file of this history; before the nodes exist */
void sim_input_draw(struct sim *sim);
void sim_input_begin(struct sim *sim);
void sim_input_free(struct sim *sim);

/** sim_input_is_lacking() - Return whether @worker, which begins from nothing, must refuse the job
 */
bool sim_input_is_lacking(const struct sim_worker *worker);
/** sim_input_refused() - Note that @worker refuses the job */
void sim_input_refused(const struct sim_worker *worker);
/** sim_input_given_up() - Check that @plan, which ends the job as refused, follows a refusal by all
 * nodes that could run the job */
void sim_input_given_up(struct sim *sim, const struct plan *plan);
/** sim_input_ended() - Return whether the job has ended as refused */
bool sim_input_ended(const struct sim *sim);
