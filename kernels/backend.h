/*
 * Choose a worker's table of kernels.
 *
 * The CPU's table is linked in. The GPU's table is in libfirn-cuda.so: at the path in
 * FIRN_CUDA_LIBRARY, else in the program's folder, in ../lib/firn from there, or on the system's
 * library path. A shared object of another build is refused.
 */
#pragma once

#include "kernels/kernel.h"

enum kernel_backend { KERNEL_BACKEND_CPU, KERNEL_BACKEND_CUDA };

/* Arithmetic of a GPU's matrix products and the type of its activations; the CPU has only f32.
 */
enum kernel_precision { KERNEL_PRECISION_F32, KERNEL_PRECISION_TF32, KERNEL_PRECISION_BF16 };

/**
 * kernel_backend() - return the table of a backend, valid until the process ends
 *
 * Return: 0; -ENOENT (no libfirn-cuda.so: this build has no GPU backend), -ELIBBAD (it cannot be
 * loaded, or is of another build), -ENOTSUP (a precision that the backend does not have). A machine
 * without a GPU is an error of table->open() only: -ENODEV and "no GPU: CPU slots only".
 */
int kernel_backend(enum kernel_backend backend, enum kernel_precision precision,
                   const struct kernel **ret_kernel, struct error *error) CHECK_RESULT;

/**
 * kernel_backend_identity() - return the text that identifies the arithmetic of the backend on this
 * machine: equal on two machines whose results are equal
 *
 * CUDA: the text of the first GPU, which need not be free. Return: as kernel_backend(), and -ENODEV
 */
int kernel_backend_identity(enum kernel_backend backend, char *ret_text, size_t size,
                            struct error *error) CHECK_RESULT;
