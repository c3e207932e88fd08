/* The identity of a slot's arithmetic: everything beyond the inputs that changes the bits of
 * results. */
#pragma once

#include <stddef.h>

/* Raise with every change of our own kernels that changes a result. (On GPUs a digest of the
 * sources detects a forgotten raise: kernels/cuda/identity.cuh.) */
#define KERNEL_ARITHMETIC      2 /* kernels/cpu */
#define KERNEL_CUDA_ARITHMETIC 5 /* kernels/cuda */

/** kernel_cpu_identity() - write "OpenBLAS 0.3.21 SkylakeX, kernels 2": equal if results are equal
 *
 * Our kernels give the same bits at every level of vector instructions; OpenBLAS chooses its code
 * by the processor's core, and another version adds in another order.
 */
void kernel_cpu_identity(char *ret_text, size_t size);
