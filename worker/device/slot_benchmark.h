/*
 * A short measurement of a device's speed, which firnd passes to the planner. The result does not
 * decide which slots compute alike: only their identity does (kernels/backend.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/backend.h"
#include "kernels/kernel.h"

/* Rows, inputs and outputs of a product, and bytes of a copy: large enough that the cost of a
 * launch is negligible. */
struct slot_benchmark_size {
    size_t rows, in, out, copy_bytes, host_bytes;
    uint64_t measure_ns; /* repeated for this time, at least twice: the best counts */
};

/**
 * slot_benchmark_of_products() - measure the multiplications and additions per second of one large
 * product, in the precision of @kernel
 *
 * A processor is shared with other processes: a CPU slot counts processor time, a GPU the clock.
 * Takes about @size->measure_ns besides opening the device, which no other process may use
 * meanwhile.
 *
 * Return: 0; -EBUSY: more than a tenth of the device's memory is taken; -ENOMEM, -EIO, and the
 * errors of opening it
 */
int slot_benchmark_of_products(const struct kernel *kernel, const struct kernel_options *options,
                               const struct slot_benchmark_size *size, double *ret_flops_per_second,
                               struct error *error) CHECK_RESULT;

/** slot_benchmark_of_memory() - measure the bytes per second that a copy inside the device reads
 * and writes, and the bytes per second from the device to pinned host memory (NULL: not measured);
 * otherwise as slot_benchmark_of_products()
 */
int slot_benchmark_of_memory(const struct kernel *kernel, const struct kernel_options *options,
                             const struct slot_benchmark_size *size, double *ret_memory_bytes,
                             double *ret_host_bytes, struct error *error) CHECK_RESULT;

/** slot_benchmark_device() - parse "cuda", "cpu" (one thread) or "cpu:THREADS"
 *
 * Return: 0; -EINVAL: any other text, @error lists the known ones */
int slot_benchmark_device(const char *device, enum kernel_backend *ret_backend,
                          struct kernel_options *ret_options, struct error *error) CHECK_RESULT;

/** slot_benchmark_main() - run `firn-worker rates DEVICE` (slot_benchmark_device()): print one line
 * "bf16 6.9e+14 tf32 4.1e+14 f32 5.0e+13 memory 2.6e+12 host 5.3e+10 nccl 1", two digits each,
 * without the items that the device lacks ("f32 1.1e+11 memory 2.0e+10" for a CPU slot). Return:
 * the program's exit status. */
int slot_benchmark_main(const char *device);
