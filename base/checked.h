/* Size arithmetic on untrusted numbers: return true on overflow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(size_t a, size_t b, size_t *ret_sum)
{
    return __builtin_add_overflow(a, b, ret_sum);
}

static inline bool checked_multiply(size_t a, size_t b, size_t *ret_product)
{
    return __builtin_mul_overflow(a, b, ret_product);
}
