/*
 * What the results depend on beside the job: device, libraries, the algorithm of each shape, in the
 * worker's log. Libraries choose at a shape's first use, so it is asked after the first step of a
 * generation, and only what is new is written.
 */
#pragma once

#include "kernels/kernel.h"

struct numerics_log {
    char *told; /* what the log has already, a line each; NULL: nothing */
};

/** numerics_log_write() - a line of the log for each line of kernel->describe() that is new; where
 * there is no memory for it, nothing is written */
void numerics_log_write(struct numerics_log *algorithms, const struct kernel *kernel,
                        struct kernel_device *device);
void numerics_log_done(struct numerics_log *algorithms);
