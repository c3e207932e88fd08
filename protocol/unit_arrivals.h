/*
 * The units that a worker receives when its generation begins: what it may do before they are here.
 *
 * State does not change before the first commit of a generation, so the units arrive while the
 * first step is computed: of all units the parameters first, which the forward needs, and then the
 * moments, which only the optimizer needs. Until all is here the worker
 *   - computes with the units whose parameters are here;
 *   - does not say that it holds the step: a commit proves to the donors that every worker has its
 *     units, and they drop theirs;
 *   - does not say that it has the next plan: within a step the next generation begins when all
 *     ranks have said so, and that plan counts on these units.
 * When the links break, a unit of which anything is missing is no copy: the worker drops it.
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

/** unit_arrivals_begin() - enter the generation of @plan as @rank: the units that it receives are
 * missing
 * @held: of each unit, whether the worker has it at the plan's boundary; it may be handed over
 *   nevertheless, by a plan that did not count on this process, and stays the copy that it is
 */
void unit_arrivals_begin(struct unit_arrivals *arrivals, const struct plan *plan, unsigned rank,
                         const bool *held);
/** unit_arrivals_parameters() - the parameters of @unit are here */
void unit_arrivals_parameters(struct unit_arrivals *arrivals, unsigned unit);
/** unit_arrivals_whole() - all of @unit is here */
void unit_arrivals_whole(struct unit_arrivals *arrivals, unsigned unit);

/** unit_arrivals_may_compute() - return whether @unit can be computed */
static inline bool unit_arrivals_may_compute(const struct unit_arrivals *arrivals, unsigned unit)
{
    return arrivals->units[unit] != UNIT_MISSING;
}

/** unit_arrivals_is_copy() - return whether nothing of @unit is missing */
static inline bool unit_arrivals_is_copy(const struct unit_arrivals *arrivals, unsigned unit)
{
    return arrivals->units[unit] == UNIT_HERE;
}

/** unit_arrivals_are_complete() - return whether nothing is missing: the worker may hold the step,
 * and say that it has the next plan */
static inline bool unit_arrivals_are_complete(const struct unit_arrivals *arrivals)
{
    return arrivals->incomplete == 0;
}
