/*
 * A worker's holdings: the units in its memory as its report lists them, and whether a plan counts
 * on units that the worker lacks.
 */
#pragma once

#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"

/**
 * holdings_describe() - write the unit ranges of @report, which has none yet
 * @held: of each of @unit_count units, whether it is in memory
 * @plan, @rank: the generation whose stage, and whose copies of other stages, the worker keeps at
 * the same step; NULL: none. All held units are then leftovers, as they also are if the stage is
 * incomplete
 *
 * The stage comes first: the report's `holds` covers the stage and the copies.
 */
void holdings_describe(const bool *held, unsigned unit_count, const struct plan *plan,
                       unsigned rank, struct worker_report *report);

/**
 * holdings_lacking() - return the first unit that @rank of @plan keeps but neither holds nor
 * receives by a move; @unit_count: none, or the plan does not continue from memory
 */
unsigned holdings_lacking(const bool *held, unsigned unit_count, const struct plan *plan,
                          unsigned rank);
