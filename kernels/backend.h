/*
 * Which table of kernels a worker uses.
 *
 * The CPU's is linked in. The GPU's lies in libfirn-cuda.so, looked for where FIRN_CUDA_LIBRARY
 * says, else beside the program, in ../lib/firn from there, and where the system looks for
 * libraries. A shared object of another build is refused.
 */
#pragma once

#include "kernels/kernel.h"

enum kernel_backend { KERNEL_BACKEND_CPU, KERNEL_BACKEND_CUDA };

/* Arithmetic of a GPU's matrix products and the type of its activations; the CPU knows f32 alone.
 */
enum kernel_precision { KERNEL_PRECISION_F32, KERNEL_PRECISION_TF32, KERNEL_PRECISION_BF16 };

/**
 * kernel_backend() - the table of a backend; it stays valid until the process ends
 *
 * Return: 0; -ENOENT (no libfirn-cuda.so: this build has no GPU backend), -ELIBBAD (it cannot be
 * loaded, or is of another build), -ENOTSUP (a precision that the backend does not have). That a
 * GPU is there says only table->open(): -ENODEV and "no GPU: CPU slots only" where there is none.
 */
int kernel_backend(enum kernel_backend backend, enum kernel_precision precision,
                   const struct kernel **ret_kernel, struct error *error) CHECK_RESULT;

/**
 * kernel_backend_identity() - what the backend computes with on this machine: a text that is equal
 * on two machines where their results are
 *
 * CUDA: of the first GPU, which need not be free. Return: as kernel_backend(), and -ENODEV
 */
int kernel_backend_identity(enum kernel_backend backend, char *ret_text, size_t size,
                            struct error *error) CHECK_RESULT;
