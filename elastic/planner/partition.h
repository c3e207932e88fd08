/* Contiguous min-max partition of units into stages, exact by dynamic programming. */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

/**
 * partition_allowed - return whether one stage may hold units [first, end) when @stages_left stages
 * remain, this one included
 *
 * Under 1F1B the memory of a stage depends on the number of stages after it, hence @stages_left.
 * The callback must allow every sub-range of an allowed range at the same @stages_left.
 */
typedef bool (*partition_allowed)(void *context, unsigned first, unsigned end,
                                  unsigned stages_left);

/* Solutions for every number of stages. The planner queries many of them. */
struct partition_table;

/**
 * partition_table_new() - make a table for 1 ... @stages_max stages; a row is solved on its first
 * use
 * @costs: @unit_count seconds (any unit), copied
 * @allowed: NULL: every range is allowed. The search is O(K * U^2) with it and O(K * U log U)
 * without it.
 * @first_least: units that the first stage has at the least, 0 to @unit_count
 * Return: 0; -EINVAL when @stages_max is 0 or exceeds @unit_count, or a cost is negative or not
 * finite; -ENOMEM.
 */
int partition_table_new(const double *costs, unsigned unit_count, unsigned stages_max,
                        unsigned first_least, partition_allowed allowed, void *context,
                        struct partition_table **ret_table) CHECK_RESULT;
void partition_table_free(struct partition_table *table); /* NULL allowed */

/**
 * partition_table_largest() - return the smallest possible largest sum with @stage_count stages;
 * INFINITY: no partition is allowed
 */
double partition_table_largest(struct partition_table *table, unsigned stage_count);

/**
 * partition_table_cuts() - find non-empty ranges whose largest sum is partition_table_largest(),
 * which must be finite; ties go to the earliest cuts
 * @ret_first: stage_count + 1 entries: the first unit of each stage, then unit_count
 */
void partition_table_cuts(struct partition_table *table, unsigned stage_count, unsigned *ret_first);
