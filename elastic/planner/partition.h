/* Contiguous min-max partition of units into stages, exact by dynamic programming. */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

/**
 * partition_allowed - may one stage be units [first, end), with @stages_left stages from it on?
 *
 * What a stage keeps in memory depends on how many stages come after it (1F1B), which is why the
 * table asks for it. Must allow every part of a range that it allows at the same @stages_left.
 */
typedef bool (*partition_allowed)(void *context, unsigned first, unsigned end,
                                  unsigned stages_left);

/* The answers for every number of stages: the planner asks for many of them. */
struct partition_table;

/**
 * partition_table_new() - for 1 ... @stages_max stages, solved as far as they are asked for
 * @costs: @unit_count seconds (any unit), copied
 * @allowed: NULL: every range is. With it the search is O(K * U^2), without it O(K * U log U).
 * Return: 0; -EINVAL when @stages_max is 0 or exceeds @unit_count, or a cost is negative or not
 * finite; -ENOMEM.
 */
int partition_table_new(const double *costs, unsigned unit_count, unsigned stages_max,
                        partition_allowed allowed, void *context,
                        struct partition_table **ret_table) CHECK_RESULT;
void partition_table_free(struct partition_table *table); /* NULL allowed */

/** partition_table_largest() - the least largest sum with @stage_count stages; INFINITY: none is
 * allowed */
double partition_table_largest(struct partition_table *table, unsigned stage_count);

/**
 * partition_table_cuts() - non-empty ranges whose largest sum is partition_table_largest(), which
 * must be finite; of several such, the one with the earliest cuts
 * @ret_first: stage_count + 1 entries: where each stage begins, then unit_count
 */
void partition_table_cuts(struct partition_table *table, unsigned stage_count, unsigned *ret_first);
