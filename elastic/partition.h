/* Contiguous min-max partition of units into stages, exact by dynamic programming. */
#pragma once

#include "base/compiler.h"

/**
 * partition_min_max() - cut @unit_count costs into @stage_count non-empty ranges whose largest sum is least
 * @ret_first: stage_count + 1 entries; the last is unit_count. Ties: the earliest cuts.
 * Return: 0; -EINVAL when stage_count is 0 or exceeds unit_count; -ENOMEM. O(K * U log U) time.
 */
int partition_min_max(const double *costs, unsigned unit_count, unsigned stage_count, unsigned *ret_first,
                      double *ret_largest) CHECK_RESULT;
