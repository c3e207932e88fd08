/*
 * Memory that runs out: this program's own malloc, calloc and realloc. The allocation with the
 * number given to fault_memory_arm() returns NULL, in any thread. Linked statically, so libraries
 * that the code uses (jansson, xxHash) fail too. With AddressSanitizer, which brings its own
 * allocator, no allocation ever fails and the tests report that.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULT_MEMORY 0
#else
#define FAULT_MEMORY 1
#endif

static atomic_long fault_memory_left = -1; /* allocations until the failing one; -1: none */
static atomic_bool fault_memory_hit;
/* NULL, or called at each allocation; never called in sanitized builds. */
__attribute__((unused)) static void (*fault_memory_seen)(void);

static inline void fault_memory_arm(long number)
{
    fault_memory_hit = false;
    fault_memory_left = number;
}

/** fault_memory_disarm() - whether the allocation was reached */
static inline bool fault_memory_disarm(void)
{
    fault_memory_left = -1;
    return fault_memory_hit;
}

/** fault_memory_suspend() - Suspend failures; pass the return value to fault_memory_resume() */
static inline long fault_memory_suspend(void)
{
    return atomic_exchange(&fault_memory_left, -1);
}

static inline void fault_memory_resume(long left)
{
    fault_memory_left = left;
}

#if FAULT_MEMORY
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static inline bool fault_memory_now(void)
{
    if (fault_memory_seen)
        fault_memory_seen();
    if (fault_memory_left < 0 || atomic_fetch_sub(&fault_memory_left, 1) != 0)
        return false;
    fault_memory_hit = true;
    errno = ENOMEM; /* glibc itself relies on it */
    return true;
}

void *malloc(size_t size)
{
    return fault_memory_now() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fault_memory_now() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fault_memory_now() ? NULL : __libc_realloc(memory, size);
}
#endif

/**
 * fault_memory_each() - Call @run with its k-th allocation failing, for k = 0, 1, ... until no
 * allocation is left to fail; each call must succeed or return -ENOMEM @failure: the error that
 * @run sets @check: NULL, or the check after each call; is given the result
 */
static inline void fault_memory_each(const struct error *failure, int (*run)(void),
                                     void (*check)(int result))
{
    long k = 0;
    bool hit = true;
    if (!FAULT_MEMORY)
        skip();
    for (; hit; k++) {
        fault_memory_arm(k);
        int status = run();
        hit = fault_memory_disarm();
        if (status != 0 && (!hit || status != -ENOMEM))
            fail_msg("allocation %ld: %d \"%s\"", k, status, failure->text);
        if (check)
            check(status);
    }
    print_message("[   INFO   ] %ld allocations\n", k - 1);
    assert_true(k > 4);
}
