/*
 * How fast a device is, measured in a moment: for firnd, which tells the planner. What is measured
 * decides nothing about which slots compute alike: that is the identity (kernels/backend.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "kernels/kernel.h"

/* A product of so many rows, inputs and outputs, and bytes of a copy: large enough that a launch
 * is nothing beside it. */
struct slot_benchmark_size {
    size_t rows, in, out, copy_bytes, host_bytes;
    uint64_t measure_ns; /* repeated for so long, at least twice: the best counts */
};

/**
 * slot_benchmark_of_products() - multiplications and additions a second of one large product, in
 * the precision of @kernel
 *
 * A processor is shared with others: of a CPU slot the processor time counts, of a GPU the clock.
 * Takes about @size->measure_ns beside opening the device, which must be nobody else's meanwhile.
 * Return: 0; -EBUSY: most of its memory is taken; -ENOMEM, -EIO, and what opening it said
 */
int slot_benchmark_of_products(const struct kernel *kernel, const struct kernel_options *options,
                               const struct slot_benchmark_size *size, double *ret_flops_per_second,
                               struct error *error) CHECK_RESULT;

/** slot_benchmark_of_memory() - bytes a second that a copy inside the device reads and writes, and
 * bytes a second from there to pinned memory of the host (NULL: not measured); else as
 * slot_benchmark_of_products()
 */
int slot_benchmark_of_memory(const struct kernel *kernel, const struct kernel_options *options,
                             const struct slot_benchmark_size *size, double *ret_memory_bytes,
                             double *ret_host_bytes, struct error *error) CHECK_RESULT;

/** slot_benchmark_device() - read "cuda", "cpu" (one thread) or "cpu:THREADS"
 * Return: 0; -EINVAL: it is something else, @error says what is known */
int slot_benchmark_device(const char *device, enum kernel_backend *ret_backend,
                          struct kernel_options *ret_options, struct error *error) CHECK_RESULT;

/** slot_benchmark_main() - `firn-worker rates DEVICE` (slot_benchmark_device()): one line
 * "bf16 6.9e+14 tf32 4.1e+14 f32 5.0e+13 memory 2.6e+12 host 5.3e+10 nccl 1", two digits each,
 * without what the device does not have ("f32 1.1e+11 memory 2.0e+10" of a CPU slot). Returns the
 * program's exit status. */
int slot_benchmark_main(const char *device);
