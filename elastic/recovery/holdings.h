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
 * the same step; NULL: none, all held units are left from before, as they are where the stage is
 * not whole
 *
 * The stage comes first: the report's `holds` covers the stage, and copies that are kept.
 */
void holdings_describe(const bool *held, unsigned unit_count, const struct plan *plan,
                       unsigned rank, struct worker_report *report);

/**
 * holdings_lacking() - return the first unit that @rank of @plan keeps, and that it neither holds
 * nor receives by a move; @unit_count: none, or the plan does not go on from memory
 */
unsigned holdings_lacking(const bool *held, unsigned unit_count, const struct plan *plan,
                          unsigned rank);
