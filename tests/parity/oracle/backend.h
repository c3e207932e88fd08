/*
 * Run a check on every backend: each level of vector instructions with 1, 2 and 3 threads, the
 * GPU's kernels in the emulator (tests/emulator), and a real GPU if there is one. Every operation
 * takes f32 host memory (parity/oracle/adapter.h).
 */
#pragma once

#include "kernels/backend.h"

struct backend {
    const struct kernel *kernel;
    struct kernel_device *device;
};

typedef void (*backend_check)(const struct backend *backend);

/** backend_each() - Call @check for every backend; print a message when no GPU is there */
void backend_each(backend_check check);

/** backend_each_product() - backend_each(), and the emulator in TF32, which differs in nothing else
 */
void backend_each_product(backend_check check);

/** backend_gpu_alone() - Return whether PARITY_DEVICE=cuda is in the environment: checks run on a
 * real GPU alone, for the machine may be lent by the minute, and a missing GPU is a failure */
bool backend_gpu_alone(void);

/** backend_gpu() - Return the kernels of a real GPU; NULL, with a message, without a GPU */
const struct kernel *backend_gpu(enum kernel_precision precision);

/** backend_name() - the backend of the check that runs now, for messages */
const char *backend_name(void);

/** backend_case() - Name the current case for messages: the operation, its shape, its layout. The
 * name holds until the next case, or the next backend. */
void backend_case(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * backend_fail() - Report a wrong result with the backend's arithmetic, and end the test. On a real
 * GPU the test continues, so that one run reports every shape and precision, and fails at the end
 * of backend_each().
 */
void backend_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * backend_emulated() - Return whether the emulator computes: thousands of times slower than a GPU
 */
bool backend_emulated(void);

/** backend_round() - @x as the activations of the current backend hold it */
float backend_round(float x);

/** backend_tolerance() - Widen @tolerance of a result in f32 to the precision of the backend */
double backend_tolerance(double tolerance);
