/*
 * A function of every element, shared by the flat operations. A thread takes MAP_PACKS packs of 16
 * bytes, loads all of them, then computes and stores, so several loads are in flight. Input and
 * output may be the same memory, because an output element depends only on the input element at its
 * place.
 *
 * A Function has: `element` (the type a pack is counted in), `input` (filled by load()),
 * load(input &, index, left) and store(input &, index, left). The memory begins at a multiple of 16
 * bytes.
 */
#pragma once

#include "kernels/cuda/device.cuh"

#define MAP_THREADS 256
#define MAP_PACKS   4

template <typename Function>
__global__ void __launch_bounds__(MAP_THREADS) map_kernel(Function function, size_t count)
{
    constexpr int LANES = lanes_of<typename Function::element>::count;
    typename Function::input inputs[MAP_PACKS];
    size_t first = ((size_t)blockIdx.x * MAP_THREADS * MAP_PACKS + threadIdx.x) * LANES;

#pragma unroll
    for (int pack = 0; pack < MAP_PACKS; pack++) {
        size_t index = first + (size_t)pack * MAP_THREADS * LANES;
        if (index < count)
            function.load(inputs[pack], index, count - index);
    }
#pragma unroll
    for (int pack = 0; pack < MAP_PACKS; pack++) {
        size_t index = first + (size_t)pack * MAP_THREADS * LANES;
        if (index < count)
            function.store(inputs[pack], index, count - index);
    }
}

template <typename Function>
void map(struct kernel_device *device, Function function, size_t count, const char *call)
{
    constexpr size_t EACH =
        (size_t)MAP_THREADS * MAP_PACKS * (size_t)lanes_of<typename Function::element>::count;
    if (count == 0)
        return;
    LAUNCH(map_kernel<Function>, blocks_for(count, EACH), MAP_THREADS, 0, device_stream(device), function,
           count);
    DEVICE_LAUNCHED(device, call);
}
