#include "kernels/cuda/attention/attention.cuh"

#include <type_traits>

#include "kernels/cuda/attention/attention_choice.cuh"
#include "kernels/cuda/operations.cuh"

#define DELTA_WARPS 4

/* delta = sum over a head's columns of d_output output; one warp per row of a head */
template <typename T>
static __global__ void __launch_bounds__(DELTA_WARPS *WARP)
    delta_kernel(float *delta, const T *d_output, const T *output, attention_view view)
{
    unsigned lane = threadIdx.x % WARP;
    size_t index = (size_t)blockIdx.x * DELTA_WARPS + threadIdx.x / WARP;
    if (index >= (size_t)view.batch * view.heads * view.context)
        return;
    unsigned row = (unsigned)(index % view.context);
    unsigned head = (unsigned)(index / view.context % view.heads);
    unsigned batch = (unsigned)(index / view.context / view.heads);
    size_t begin = attention_output_index(view, batch, head, row);
    float sum = 0.0f;

    for (unsigned c = lane; c < view.depth; c += WARP)
        sum += to_float(d_output[begin + c]) * to_float(output[begin + c]);
    sum = warp_sum(sum);
    if (lane == 0)
        delta[index] = sum;
}

static attention_view view_of(const struct kernel_attention *shape)
{
    attention_view view = {};
    view.batch = (unsigned)shape->batch;
    view.context = (unsigned)shape->context;
    view.width = (unsigned)shape->width;
    view.heads = (unsigned)shape->heads;
    view.depth = view.width / view.heads;
    view.kv_heads = (unsigned)shape->kv_heads;
    view.group = view.heads / view.kv_heads;
    view.stride = view.width + 2 * view.kv_heads * view.depth;
    view.scale = 1.0f / sqrtf((float)view.depth);
    return view;
}

static bool workspace_fits(const attention_view &view)
{
    return (size_t)view.batch * view.heads * view.context * sizeof(float) <= CUDA_WORKSPACE_BYTES;
}

static bool fits(struct kernel_device *device, const attention_view &view)
{
    if (view.depth > ATTENTION_ROWS_DEPTH_MAX) {
        device_fail(device, "attention", "heads of more than 256 columns are not supported");
        return false;
    }
    if (!workspace_fits(view)) {
        device_fail(device, "attention", "the micro-batch is too large for the workspace");
        return false;
    }
    return view.batch > 0 && view.context > 0;
}

static bool has_tiles(const attention_view &view)
{
    return view.depth == 64 || view.depth == 128;
}

static void own_forward(struct kernel_device *device, float *output, float *log_sum,
                        const float *qkv, const attention_view &view)
{
    attention_rows_forward(device, output, log_sum, qkv, view);
}

static void own_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                        const bfloat *qkv, const attention_view &view)
{
    if (has_tiles(view))
        attention_tiles_forward(device, output, log_sum, qkv, view);
    else
        attention_rows_forward(device, output, log_sum, qkv, view);
}

static void from_delta(struct kernel_device *device, float *d_qkv, const float *d_output,
                       const float *delta, const float *log_sum, const float *qkv,
                       const attention_view &view)
{
    attention_rows_backward(device, d_qkv, d_output, delta, log_sum, qkv, view);
}

static void from_delta(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                       const float *delta, const float *log_sum, const bfloat *qkv,
                       const attention_view &view)
{
    if (has_tiles(view))
        attention_tiles_backward(device, d_qkv, d_output, delta, log_sum, qkv, view);
    else
        attention_rows_backward(device, d_qkv, d_output, delta, log_sum, qkv, view);
}

template <typename T>
static void own_backward(struct kernel_device *device, T *d_qkv, const T *d_output, const T *output,
                         const float *log_sum, const T *qkv, const attention_view &view)
{
    float *delta = (float *)device->workspace;

    LAUNCH(delta_kernel<T>, blocks_for((size_t)view.batch * view.heads * view.context, DELTA_WARPS),
           DELTA_WARPS * WARP, 0, device_stream(device), delta, d_output, output, view);
    DEVICE_LAUNCHED(device, "attention_backward");
    from_delta(device, d_qkv, d_output, delta, log_sum, qkv, view);
    DEVICE_LAUNCHED(device, "attention_backward");
}

void attention_own_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                           const bfloat *qkv, const attention_view &view)
{
    own_forward(device, output, log_sum, qkv, view);
    DEVICE_LAUNCHED(device, "attention_forward");
}

void attention_own_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                            const bfloat *output, const float *log_sum, const bfloat *qkv,
                            const attention_view &view)
{
    own_backward(device, d_qkv, d_output, output, log_sum, qkv, view);
}

/* ---- the operations: by cuDNN if it was chosen, only in bf16 ---- */

static bool chosen_forward(struct kernel_device *, float *, float *, const float *,
                           const attention_view &)
{
    return false;
}

static bool chosen_forward(struct kernel_device *device, bfloat *output, float *log_sum,
                           const bfloat *qkv, const attention_view &view)
{
    return attention_chosen_forward(device, output, log_sum, qkv, view);
}

static bool chosen_backward(struct kernel_device *, float *, const float *, const float *,
                            const float *, const float *, const attention_view &)
{
    return false;
}

static bool chosen_backward(struct kernel_device *device, bfloat *d_qkv, const bfloat *d_output,
                            const bfloat *output, const float *log_sum, const bfloat *qkv,
                            const attention_view &view)
{
    return attention_chosen_backward(device, d_qkv, d_output, output, (float *)device->workspace,
                                     log_sum, qkv, view);
}

template <typename T>
int cuda_attention_prepare(struct kernel_device *device, struct kernel_attention shape)
{
    attention_view view = view_of(&shape);
    /* a shape that does not fit fails at its first use, as without cuDNN */
    bool small = view.depth <= ATTENTION_ROWS_DEPTH_MAX && workspace_fits(view);

    return std::is_same<T, bfloat>::value && small ? attention_choose(device, view) : 0;
}

template <typename T>
void cuda_attention_forward(struct kernel_device *device, void *output, float *log_sum,
                            const void *qkv, struct kernel_attention shape)
{
    attention_view view = view_of(&shape);

    if (!fits(device, view) || chosen_forward(device, (T *)output, log_sum, (const T *)qkv, view))
        return;
    own_forward(device, (T *)output, log_sum, (const T *)qkv, view);
    DEVICE_LAUNCHED(device, "attention_forward");
}

template <typename T>
void cuda_attention_backward(struct kernel_device *device, void *d_qkv, const void *d_output,
                             const void *output, const float *log_sum, const void *qkv,
                             struct kernel_attention shape)
{
    attention_view view = view_of(&shape);

    if (!fits(device, view) || chosen_backward(device, (T *)d_qkv, (const T *)d_output,
                                               (const T *)output, log_sum, (const T *)qkv, view))
        return;
    own_backward(device, (T *)d_qkv, (const T *)d_output, (const T *)output, log_sum,
                 (const T *)qkv, view);
}

#define INSTANTIATE(T)                                                                             \
    template int cuda_attention_prepare<T>(struct kernel_device *, struct kernel_attention);       \
    template void cuda_attention_forward<T>(struct kernel_device *, void *, float *, const void *, \
                                            struct kernel_attention);                              \
    template void cuda_attention_backward<T>(struct kernel_device *, void *, const void *,         \
                                             const void *, const float *, const void *,            \
                                             struct kernel_attention);
INSTANTIATE(float)
INSTANTIATE(bfloat)
