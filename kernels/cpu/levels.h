/*
 * The operations exist once for every level of vector instructions. The files of this folder that
 * include level.h are compiled for each of them, and kernel_cpu() takes the highest level that the
 * machine has. All levels add in the same order and round in the same places, so their results are
 * equal to the bit; only OpenBLAS chooses its own code for the machine.
 */
#pragma once

#include "kernels/kernel.h"

enum cpu_level { CPU_PORTABLE, CPU_AVX2, CPU_AVX512, CPU_LEVELS };

/** kernel_cpu_level() - return the table of one level; NULL: the processor cannot run it */
const struct kernel *kernel_cpu_level(enum cpu_level level);
