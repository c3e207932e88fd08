/* Which backend a benchmark runs on: --backend cuda|cpu, --precision bf16|tf32|f32. */
#pragma once

#include "kernels/kernel.h"

/** backend_chosen() - as the arguments say, else @otherwise; ends the program when it is not to be
 * had */
const struct kernel *backend_chosen(int argc, char **argv, const char *otherwise);
