/*
 * A kernel table that measures how long each operation takes and otherwise does what the CPU's
 * does: where the time of a step goes, without a profiler's permissions. CPU operations have
 * finished when they return, so the clock around them is exact.
 */
#pragma once

#include "kernels/kernel.h"

/** profile_kernel() - the table; the same one always */
const struct kernel *profile_kernel(void);
/** profile_reset() - forget what was measured */
void profile_reset(void);

/** profile_count() - operations; profile_name(), profile_seconds() - of operation @index */
unsigned profile_count(void);
const char *profile_name(unsigned index);
double profile_seconds(unsigned index);
