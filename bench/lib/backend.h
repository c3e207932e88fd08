/* The backend of a benchmark: --backend cuda|cpu, --precision bf16|tf32|f32. */
#pragma once

#include "kernels/kernel.h"

/** backend_chosen() - return the backend that the arguments name, else @otherwise; end the program
 * if the backend is not available */
const struct kernel *backend_chosen(int argc, char **argv, const char *otherwise);
