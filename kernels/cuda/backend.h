/*
 * The exported table of libfirn-cuda.so. The shared object is loaded at run time
 * (kernels/backend.h), so that one program serves machines with and without GPUs, and only the
 * worker ever loads CUDA.
 */
#pragma once

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_BACKEND_SYMBOL "firn_cuda_backend"

struct cuda_backend {
    size_t table_size; /* sizeof(struct kernel) at build time: differs in another build */
    const struct kernel *bf16, *tf32, *f32;
    /* "NVIDIA H200, 132 SMs, cuBLASLt 130100, kernels 5-1a2b3c4d, driver 580.82.07": equal if
     * results are equal (kernels/cuda/identity.cuh). -ENODEV */
    int (*identity)(char *ret_text, size_t size, struct error *error);
};

/** firn_cuda_backend() - return the table, in static memory */
__attribute__((visibility("default"))) const struct cuda_backend *firn_cuda_backend(void);

#ifdef __cplusplus
}
#endif
