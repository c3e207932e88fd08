/*
 * Sixteen f32 lanes, on every machine.
 *
 * A vec is one register with AVX-512, two with AVX2 and an array elsewhere. In every form lane i of
 * a sum gets the same elements, fma rounds once, and the lanes are added in the same tree. So a
 * result does not depend on the machine's width. Loads and stores need no alignment.
 *
 * The _part forms touch only the first @count lanes (16 or more: all), so that loops need no
 * second copy of their body for the tail.
 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define VEC_LANES 16

#if defined(__AVX512F__)
#include "kernels/cpu/vector_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "kernels/cpu/vector_avx2.h"
#else
#include "kernels/cpu/vector_portable.h"
#endif

static inline vec vec_zero(void)
{
    return vec_set(0.0f);
}

/** vec_load_part() - load @count lanes; the lanes beyond are @fill */
static inline vec vec_load_part(const float *from, size_t count, float fill)
{
    return count >= VEC_LANES ? vec_load(from) : vec_load_first(from, (unsigned)count, fill);
}

static inline void vec_store_part(float *to, vec a, size_t count)
{
    if (count >= VEC_LANES)
        vec_store(to, a);
    else
        vec_store_first(to, a, (unsigned)count);
}

/** vec_keep_part() - set the lanes beyond @count to zero */
static inline vec vec_keep_part(vec a, size_t count)
{
    return count >= VEC_LANES ? a : vec_keep_first(a, (unsigned)count);
}
