/* Attributes and small macros that the whole tree uses. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define CHECK_RESULT   __attribute__((warn_unused_result))
#define CLEANUP(f)     __attribute__((cleanup(f)))
#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Two levels of comparison that do not evaluate their arguments twice. */
#define MIN(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) min_a_ = (a);                                                                \
        __typeof__(b) min_b_ = (b);                                                                \
        min_a_ < min_b_ ? min_a_ : min_b_;                                                         \
    })
#define MAX(a, b)                                                                                  \
    ({                                                                                             \
        __typeof__(a) max_a_ = (a);                                                                \
        __typeof__(b) max_b_ = (b);                                                                \
        max_a_ > max_b_ ? max_a_ : max_b_;                                                         \
    })

/** free_pointer() - for CLEANUP: frees what the annotated pointer points to */
static inline void free_pointer(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

/** close_descriptor() - for CLEANUP: closes the annotated descriptor unless it is negative */
void close_descriptor(int *descriptor);

#define AUTO_FREE  CLEANUP(free_pointer)
#define AUTO_CLOSE CLEANUP(close_descriptor)
