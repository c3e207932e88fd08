/* The tables of the backend, one per precision, and the only symbol that the shared object
 * exports. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/attention/attention_choice.cuh"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/identity.cuh"
#include "kernels/cuda/operations.cuh"
#include "kernels/cuda/product/product.cuh"

/* Run the operations between backward and the next forward once, on a few elements. The driver
 * loads a kernel at its first use and may wait for the device to do so. In a step it would wait
 * behind NCCL kernels that wait for peers. Forward and backward have their own warm-up
 * (worker/step/warm_up.h). */
template <typename T> static void load_kernels(struct kernel_device *device)
{
    constexpr size_t COUNT = 64;
    float *f = (float *)device->product_workspace; /* free before the first product */
    T *t = (T *)(f + 4 * COUNT);
    const struct kernel_adamw options = {};
    const struct kernel_adamw_tensor stepped = {f,     f + COUNT, f + 2 * COUNT, f + 3 * COUNT, t,
                                                COUNT, 0,         true};
    const struct kernel_flat_tensor flat = {f, COUNT};
    double sum;
    uint64_t digest;

    cuda_zero(device, f, 5 * COUNT * sizeof(*f));
    cuda_adamw<T>(device, &stepped, 1, &options);
    cuda_tree_add(device, f, f, f, COUNT);
    cuda_weights<T>(device, t, f, COUNT);
    cuda_values<T>(device, f, t, COUNT);
    cuda_norms_squared(device, &flat, 1, &sum);
    cuda_digests(device, &flat, 1, &digest);
}

template <typename T, enum cuda_precision PRECISION>
static int open_with(const struct kernel_options *options, struct kernel_device **ret_device,
                     struct error *error)
{
    int status = cuda_device_open(options, PRECISION, ret_device, error);

    if (status == 0)
        load_kernels<T>(*ret_device);
    return status;
}

static void describe(struct kernel_device *device, char *ret_text, size_t size)
{
    static const char *const precisions[] = {"bf16", "tf32", "f32"};
    int length = snprintf(ret_text, size, "GPU %d: %s, %s, cuBLASLt %zu\n", device->index,
                          device->name, precisions[device->precision], cublasLtGetVersion());

    if (length < 0 || (size_t)length >= size)
        return;
    attention_describe(device, ret_text + length, size - (size_t)length);
    length += (int)strlen(ret_text + length);
    product_describe(device, ret_text + length, size - (size_t)length);
}

template <typename T, enum cuda_precision PRECISION> static struct kernel make_table()
{
    struct kernel k = {};
    k.name = "cuda";
    k.activation_size = sizeof(T);
    k.open = open_with<T, PRECISION>;
    k.close = cuda_device_close;
    k.allocate = cuda_allocate;
    k.release = cuda_release;
    k.host_allocate = cuda_host_allocate;
    k.host_release = cuda_host_release;
    k.memory = cuda_memory;
    k.upload = cuda_upload;
    k.download = cuda_download;
    k.copy = cuda_copy;
    k.zero = cuda_zero;
    k.synchronize = cuda_synchronize;
    k.event_new = cuda_event_new;
    k.event_free = cuda_event_free;
    k.event_record = cuda_event_record;
    k.queue_wait = cuda_queue_wait;
    k.event_passed = cuda_event_passed;
    k.stream = cuda_queue_stream;
    k.uuid = cuda_uuid;
    k.event_wait = cuda_event_wait;
    k.transfer = cuda_transfer;
    k.record_begin = cuda_record_begin;
    k.record_end = cuda_record_end;
    k.replay = cuda_replay;
    k.recording_free = cuda_recording_free;
    k.describe = describe;
    k.embedding_forward = cuda_embedding_forward<T>;
    k.embedding_backward = cuda_embedding_backward<T>;
    k.layernorm_forward = cuda_layernorm_forward<T>;
    k.layernorm_backward = cuda_layernorm_backward<T>;
    k.rmsnorm_forward = cuda_rmsnorm_forward<T>;
    k.rmsnorm_backward = cuda_rmsnorm_backward<T>;
    k.linear_forward = cuda_linear_forward<T>;
    k.linear_gelu_forward = cuda_linear_gelu_forward<T>;
    k.linear_backward = cuda_linear_backward<T>;
    k.linear_gelu_backward = cuda_linear_gelu_backward<T>;
    k.attention_prepare = cuda_attention_prepare<T>;
    k.attention_forward = cuda_attention_forward<T>;
    k.attention_backward = cuda_attention_backward<T>;
    k.headnorm_forward = cuda_headnorm_forward<T>;
    k.headnorm_backward = cuda_headnorm_backward<T>;
    k.rotary_forward = cuda_rotary_forward<T>;
    k.rotary_backward = cuda_rotary_backward<T>;
    k.gelu_forward = cuda_gelu_forward<T>;
    k.gelu_backward = cuda_gelu_backward<T>;
    k.swiglu_forward = cuda_swiglu_forward<T>;
    k.swiglu_backward = cuda_swiglu_backward<T>;
    k.residual = cuda_residual<T>;
    k.cross_entropy_forward = cuda_cross_entropy_forward<T>;
    k.cross_entropy_fused = cuda_cross_entropy_fused<T>;
    k.adamw = cuda_adamw<T>;
    k.weights = cuda_weights<T>;
    k.values = cuda_values<T>;
    k.norms_squared = cuda_norms_squared;
    k.digests = cuda_digests;
    k.tree_add = cuda_tree_add;
    return k;
}

const struct cuda_backend *firn_cuda_backend(void)
{
    static const struct kernel bf16 = make_table<bfloat, CUDA_BF16>();
    static const struct kernel tf32 = make_table<float, CUDA_TF32>();
    static const struct kernel f32 = make_table<float, CUDA_F32>();
    static const struct cuda_backend backend = {sizeof(struct kernel), &bf16, &tf32, &f32,
                                                cuda_identity};
    return &backend;
}
