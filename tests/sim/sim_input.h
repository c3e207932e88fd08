/*
 * A file of the job's own that cannot be read, as the folder of `model.from`: on one node or on
 * all, for a while. Who has to begin from it refuses the job, and the job fails only where all do.
 */
#pragma once

#include "sim/sim_check.h"

/** sim_input_draw() - what this history has of it; before the nodes are there */
void sim_input_draw(struct sim *sim);
void sim_input_begin(struct sim *sim);
void sim_input_free(struct sim *sim);

/** sim_input_is_lacking() - must @worker, which begins from nothing, refuse the job? */
bool sim_input_is_lacking(const struct sim_worker *worker);
/** sim_input_refused() - @worker says so */
void sim_input_refused(const struct sim_worker *worker);
/** sim_input_given_up() - @plan ends the job because it is refused: by all who could run it? */
void sim_input_given_up(struct sim *sim, const struct plan *plan);
/** sim_input_ended() - has the job ended that way? */
bool sim_input_ended(const struct sim *sim);
