/*
 * Memory that runs out once on every path of calls that leads to an allocation: for operations with
 * thousands of allocations, most of which are one loop's. One run without a fault notes the path of
 * each; the first on each path is then made to fail, one a run.
 */
#pragma once

#include "lib/memory/fault_memory.h"

/** fault_memory_each_path() - as fault_memory_each(), for the first allocation on each path */
void fault_memory_each_path(const struct error *failure, int (*run)(void),
                            void (*check)(int result));
