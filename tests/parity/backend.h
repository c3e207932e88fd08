/* Runs a check on every backend: each level of vector instructions with 1, 2 and 3 threads. */
#pragma once

#include "kernels/kernel.h"

struct backend {
    const struct kernel *kernel;
    struct kernel_device *device;
};

typedef void (*backend_check)(const struct backend *backend);

void backend_each(backend_check check);

/** backend_name() - the backend of the check that runs now, for messages */
const char *backend_name(void);
