/*
 * One launch for many tensors: a table of entries in the device's memory, each with the first of
 * its blocks, in their order.
 */
#pragma once

#include "kernels/cuda/platform.cuh"

/** entry_memory() - @pointer, which an entry names: global memory, which the compiler cannot see
 * and needs to know for its best loads */
template <typename T> __device__ inline T *entry_memory(T *pointer)
{
#ifdef __CUDACC__
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

/* Of one launch: a stage of 80 layers has fewer; what has more takes several. */
#define ENTRIES_MAX 1024

/** entry_of_block() - the one whose blocks hold this one: the last with first_block <= blockIdx.x
 */
template <typename Entry>
__device__ inline unsigned entry_of_block(const Entry *entries, unsigned count)
{
    unsigned low = 0, high = count;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (entries[middle].first_block <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}
