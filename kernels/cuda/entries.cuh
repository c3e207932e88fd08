/*
 * One launch for many tensors: a table of entries in the device's memory, each with the first of
 * its blocks, in their order.
 */
#pragma once

#include "kernels/cuda/platform.cuh"

/** entry_memory() - return @pointer of an entry as global memory: the compiler cannot infer the
 * address space and needs it for its best loads */
template <typename T> __device__ inline T *entry_memory(T *pointer)
{
#ifdef __CUDACC__
    __builtin_assume(__isGlobal(pointer));
#endif
    return pointer;
}

/* Per launch: a stage of 80 layers has fewer entries; more entries take several launches. */
#define ENTRIES_MAX 1024

/** entry_of_block() - return the entry of this block: the last with first_block <= blockIdx.x
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
