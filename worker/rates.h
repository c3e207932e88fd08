/*
 * How fast a device is, measured in a moment: for firnd, which tells the planner. What is measured
 * decides nothing about which slots compute alike: that is the identity (kernels/backend.h).
 */
#pragma once

#include <stddef.h>

#include "kernels/kernel.h"

/* A product of so many rows, inputs and outputs, and bytes of a copy: large enough that a launch
 * is nothing beside it. */
struct rates_size {
    size_t rows, in, out, copy_bytes, host_bytes;
};

/**
 * rates_of_products() - multiplications and additions a second of one large product, in the
 * precision of @kernel
 *
 * Takes about 50 ms beside opening the device, which must be nobody else's meanwhile. Return: 0;
 * -EBUSY: most of its memory is taken; -ENOMEM, -EIO, and what opening it said
 */
int rates_of_products(const struct kernel *kernel, const struct kernel_options *options,
                      const struct rates_size *size, double *ret_flops_per_second,
                      struct error *error) CHECK_RESULT;

/** rates_of_memory() - bytes a second that a copy inside the device reads and writes, and bytes a
 * second from there to pinned memory of the host; else as rates_of_products() */
int rates_of_memory(const struct kernel *kernel, const struct kernel_options *options,
                    const struct rates_size *size, double *ret_memory_bytes, double *ret_host_bytes,
                    struct error *error) CHECK_RESULT;

/** rates_main() - `firn-worker rates DEVICE`: one line "bf16 6.9e+14 tf32 4.1e+14 f32 5.0e+13
 * memory 2.6e+12 host 5.3e+10 nccl 1", two digits each, without what @device ("cpu", "cuda") does
 * not have. Returns the program's exit status. */
int rates_main(const char *device);
