/* Attributes and small macros that the whole tree uses. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define CHECK_RESULT   __attribute__((warn_unused_result))
#define CLEANUP(f)     __attribute__((cleanup(f)))
#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Comparisons that evaluate each argument once. The counter makes the names of every use unique, so
 * that MAX(a, MAX(b, c)) does not shadow.
 */
#define MIN(a, b) COMPARE_(a, <, b, __COUNTER__)
#define MAX(a, b) COMPARE_(a, >, b, __COUNTER__)

#define COMPARE_(a, relation, b, id) COMPARE_NAMED_(a, relation, b, id)
#define COMPARE_NAMED_(a, relation, b, id)                                                         \
    ({                                                                                             \
        __typeof__(a) compare_a_##id = (a);                                                        \
        __typeof__(b) compare_b_##id = (b);                                                        \
        compare_a_##id relation compare_b_##id ? compare_a_##id : compare_b_##id;                  \
    })

/** free_pointer() - free the memory of the annotated pointer, for CLEANUP */
static inline void free_pointer(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

/** close_descriptor() - close the annotated descriptor, for CLEANUP, unless it is negative */
void close_descriptor(int *descriptor);

#define AUTO_FREE  CLEANUP(free_pointer)
#define AUTO_CLOSE CLEANUP(close_descriptor)
