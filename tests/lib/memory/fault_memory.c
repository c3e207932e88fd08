#include "lib/memory/fault_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_long fault_memory_left = -1; /* allocations until the failing one; -1: none */
atomic_bool fault_memory_hit;
void (*fault_memory_seen)(void);

void fault_memory_arm(long number)
{
    fault_memory_hit = false;
    fault_memory_left = number;
}

bool fault_memory_disarm(void)
{
    fault_memory_left = -1;
    return fault_memory_hit;
}

long fault_memory_suspend(void)
{
    return atomic_exchange(&fault_memory_left, -1);
}

void fault_memory_resume(long left)
{
    fault_memory_left = left;
}

#if FAULT_MEMORY

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static bool fault_memory_now(void)
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

void fault_memory_each(const struct error *failure, int (*run)(void), void (*check)(int result))
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
