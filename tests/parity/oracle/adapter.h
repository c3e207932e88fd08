/*
 * A table of kernels whose operations take f32 host memory, around any other table. The adapter
 * copies every argument to the device in the type that the backend wants, runs the operation, and
 * copies results back. So one test of an operation serves every backend and every type of
 * activations.
 */
#pragma once

#include "kernels/kernel.h"

/** adapter_around() - one at a time; @opened is @kernel's, borrowed until the next call */
const struct kernel *adapter_around(const struct kernel *kernel, struct kernel_device *opened);
