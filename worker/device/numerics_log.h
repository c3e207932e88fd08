/*
 * Log the parts of the environment that the results depend on beside the job: device, libraries,
 * the algorithm of each shape. Libraries choose an algorithm at a shape's first use, so the log is
 * written after the first step of a generation, and only with new lines.
 */
#pragma once

#include "kernels/kernel.h"

/* Some 600 shapes; the rest is not logged. */
#define NUMERICS_DESCRIPTION_SIZE ((size_t)64 << 10)

struct numerics_log {
    char *logged; /* the lines already in the log; NULL: none */
};

/** numerics_log_write() - log each line of kernel->describe() that is new; without memory, log
 * nothing */
void numerics_log_write(struct numerics_log *numerics, const struct kernel *kernel,
                        struct kernel_device *device);
void numerics_log_done(struct numerics_log *numerics);
