/*
 * A kernel table that measures the time of each operation and calls the CPU's table: a profile of a
 * step, without a profiler's permissions. CPU operations have finished when they return, so the
 * clock around them is exact.
 */
#pragma once

#include "kernels/kernel.h"

/** profile_kernel() - return the table, always the same */
const struct kernel *profile_kernel(void);
/** profile_reset() - set all measured times to zero */
void profile_reset(void);

/** profile_count() - return the number of operations; profile_name(), profile_seconds() - of
 * operation @index */
unsigned profile_count(void);
const char *profile_name(unsigned index);
double profile_seconds(unsigned index);
