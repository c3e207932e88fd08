/*
 * What a worker holds: as its report says it, ranges of units and what each is to it; and whether a
 * plan counts on more.
 */
#pragma once

#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"

/**
 * holdings_describe() - the unit ranges of @report, which has none yet
 * @held: of each of @unit_count units, whether it is in memory
 * @plan, @rank: the generation whose stage, and whose copies of other stages, the worker keeps at
 * one step with it; NULL: none, all that it has is left from before
 *
 * The stage comes first: `holds` of the report speaks of it, and of copies that are kept.
 */
void holdings_describe(const bool *held, unsigned unit_count, const struct plan *plan,
                       unsigned rank, struct worker_report *report);

/**
 * holdings_lacking() - the first unit that @rank of @plan keeps, and that it neither holds nor is
 * sent by a move; @unit_count: none is, or the plan does not go on from memory
 */
unsigned holdings_lacking(const bool *held, unsigned unit_count, const struct plan *plan,
                          unsigned rank);
