/*
 * Memory that runs out once on every call path that leads to an allocation: for operations with
 * thousands of allocations, most of them in one loop. One run without a fault notes the path of
 * each allocation; then the first allocation on each path fails, one per run.
 */
#pragma once

#include "lib/memory/fault_memory.h"

/** fault_memory_each_path() - as fault_memory_each(), for the first allocation on each path */
void fault_memory_each_path(const struct error *failure, int (*run)(void),
                            void (*check)(int result));
