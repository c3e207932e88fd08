/*
 * The units that a worker receives when its generation begins, and the limits on the worker before
 * they have arrived.
 *
 * State does not change before the first commit of a generation, so the units arrive while the
 * first step is computed: first the parameters of all units, for the forward, then the moments, for
 * the optimizer. Until all have arrived, the worker
 *   - computes with the units whose parameters have arrived;
 *   - does not report that it holds the step: a commit proves to the donors that every worker has
 *     its units, and the donors drop theirs;
 *   - does not report that it has the next plan: within a step the next generation begins when all
 *     ranks have reported it, and that plan counts on these units.
 * When the links break, an incomplete unit is no copy: the worker drops it.
 */
#pragma once

#include <stdbool.h>

#include "elastic/plan/plan.h"
#include "elastic/step/step_record.h"

enum unit_arrival {
    UNIT_HERE,
    UNIT_HAS_PARAMETERS, /* its moments are missing */
    UNIT_MISSING,
};

struct unit_arrivals {
    enum unit_arrival units[STEP_RECORD_UNITS_MAX];
    unsigned incomplete; /* units that are not UNIT_HERE */
};

/** unit_arrivals_begin() - enter the generation of @plan as @rank, whose received units are missing
 * @held: of each unit, whether the worker has it at the plan's boundary. A plan that did not count
 *   on this process may hand it over nevertheless; it stays a copy
 */
void unit_arrivals_begin(struct unit_arrivals *arrivals, const struct plan *plan, unsigned rank,
                         const bool *held);
/** unit_arrivals_parameters() - note that the parameters of @unit have arrived */
void unit_arrivals_parameters(struct unit_arrivals *arrivals, unsigned unit);
/** unit_arrivals_whole() - note that all of @unit has arrived */
void unit_arrivals_whole(struct unit_arrivals *arrivals, unsigned unit);

/** unit_arrivals_may_compute() - return whether @unit can be computed */
static inline bool unit_arrivals_may_compute(const struct unit_arrivals *arrivals, unsigned unit)
{
    return arrivals->units[unit] != UNIT_MISSING;
}

/** unit_arrivals_is_copy() - return whether @unit is complete */
static inline bool unit_arrivals_is_copy(const struct unit_arrivals *arrivals, unsigned unit)
{
    return arrivals->units[unit] == UNIT_HERE;
}

/** unit_arrivals_are_complete() - return whether all units are complete: the worker may hold the
 * step, and report that it has the next plan */
static inline bool unit_arrivals_are_complete(const struct unit_arrivals *arrivals)
{
    return arrivals->incomplete == 0;
}
