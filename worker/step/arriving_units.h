/*
 * The waits of an engine for units and sums that other workers hand over to this one
 * (worker/state/handover.h, worker/step/moved_sums.h) while its first step is computed: before the
 * forward of a unit for its parameters, before anything is added to its gradient for its sums, at
 * the end of the step for everything.
 */
#pragma once

#include "worker/step/engine.h"

/** arriving_units_begin() - begin a step: from now on the stage waits for its units. Wait here for
 * the frozen units, whose outputs may be kept by the digest of all their weights, and for all units
 * if the device has memory of its own. Errors as handover_advance() */
int arriving_units_begin(struct engine *engine) CHECK_RESULT;

/** arriving_units_passed() - return the error that ended the forward of the stage; 0: none */
int arriving_units_passed(const struct engine *engine) CHECK_RESULT;

/** arriving_units_finish() - before this rank reports that it holds the step: wait for the
 * remaining units, and until all units that it hands over are sent. Errors as handover_advance() */
int arriving_units_finish(struct engine *engine) CHECK_RESULT;

/** arriving_units_await_sums() - wait for the sums of @unit. Errors as moved_sums_new() */
int arriving_units_await_sums(struct engine *engine, unsigned unit) CHECK_RESULT;
