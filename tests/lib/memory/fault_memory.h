/*
 * Memory that runs out: this program's own malloc, calloc and realloc. The allocation with the
 * number given to fault_memory_arm() returns NULL, in any thread. They are linked statically, so
 * libraries that the code uses (jansson, xxHash) fail too. With AddressSanitizer, which has its own
 * allocator, no allocation ever fails and the tests report that.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULT_MEMORY 0
#else
#define FAULT_MEMORY 1
#endif

/* True when the allocation was reached. */
extern atomic_bool fault_memory_hit;

/* NULL, or called at each allocation; never called in sanitized builds. */
extern void (*fault_memory_seen)(void);

/** fault_memory_arm() - make allocation @number fail */
void fault_memory_arm(long number);

/** fault_memory_disarm() - return whether the allocation was reached */
bool fault_memory_disarm(void);

/** fault_memory_suspend() - Suspend failures; pass the return value to fault_memory_resume() */
long fault_memory_suspend(void);

/** fault_memory_resume() - undo fault_memory_suspend() */
void fault_memory_resume(long left);

/**
 * fault_memory_each() - Call @run with its k-th allocation failing, for k = 0, 1, ... until no
 * allocation is left to fail; each call must succeed or return -ENOMEM @failure: the error that
 * @run sets @check: NULL, or the check after each call; is given the result
 */
void fault_memory_each(const struct error *failure, int (*run)(void), void (*check)(int result));
