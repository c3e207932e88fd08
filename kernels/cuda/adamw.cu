/*
 * AdamW: one launch for all tensors of a stage. A block takes MAP-sized runs of one tensor; the
 * table of tensors is in the workspace, with the first block of each tensor, and a block finds its
 * tensor by bisection.
 *
 * With bf16 activations the same pass writes the working copy of the weights, rounded to nearest
 * or, if asked for, stochastically: up with the probability of the part cut off. The random bits
 * are Philox of (seed; element, step, tensor), so they are the same on every layout.
 */
#include <math.h>

#include "kernels/cuda/entries.cuh"
#include "kernels/cuda/operations.cuh"
#include "kernels/cuda/philox.cuh"

#define THREADS        256
#define PACKS          4
#define LANES          4
#define BLOCK_ELEMENTS (THREADS * PACKS * LANES)

struct adamw_entry {
    struct kernel_adamw_tensor tensor;
    unsigned first_block;
};

struct adamw_factors {
    float gradient_scale, beta1, beta2, rest1, rest2;
    float keep;         /* 1 - lr decay, for tensors that decay */
    float step_size;    /* lr / (1 - beta1^step) */
    float second_scale; /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
    bool stochastic;
    struct philox_words key;
    uint64_t step;
};

__device__ inline float adamw_element(float p, float &m, float &v, float g, float keep,
                                      const adamw_factors &f)
{
    g *= f.gradient_scale;
    m = f.beta1 * m + f.rest1 * g;
    v = f.beta2 * v + f.rest2 * (g * g);
    return p * keep - f.step_size * m / (sqrtf(v) * f.second_scale + f.epsilon);
}

template <typename T> struct weight_store {
    static __device__ void store(void *, size_t, size_t, const float (&)[LANES],
                                 const adamw_factors &, uint64_t)
    {
        /* f32 activations: the parameters are the weights */
    }
};

template <> struct weight_store<bfloat> {
    static __device__ void store(void *weights, size_t index, size_t left, const float (&p)[LANES],
                                 const adamw_factors &f, uint64_t stream)
    {
        bfloat rounded[LANES];
        struct philox_words_4 random = {};
        if (f.stochastic)
            random = philox_device(f.key, index / LANES, f.step << 20 | stream);
#pragma unroll
        for (int i = 0; i < LANES; i++)
            rounded[i] =
                f.stochastic ? round_stochastically(p[i], random.word[i]) : to_bfloat(p[i]);
        store_four((bfloat *)weights + index, rounded, left);
    }
};

template <typename T>
__device__ inline void adamw_pack(const kernel_adamw_tensor &t, size_t index, float keep,
                                  const adamw_factors &f)
{
    float p[LANES], m[LANES], v[LANES], g[LANES];
    size_t left = t.count - index;

    load_pack<float, true>(p, t.parameter + index, left, 0.0f);
    load_pack<float, true>(m, t.first_moment + index, left, 0.0f);
    load_pack<float, true>(v, t.second_moment + index, left, 0.0f);
    load_pack<float, true>(g, t.gradient + index, left, 0.0f);
#pragma unroll
    for (int i = 0; i < LANES; i++)
        p[i] = adamw_element(p[i], m[i], v[i], g[i], keep, f);
    store_pack<float, true>(t.parameter + index, p, left);
    store_pack<float, true>(t.first_moment + index, m, left);
    store_pack<float, true>(t.second_moment + index, v, left);
    weight_store<T>::store(t.weight, index, left, p, f, t.stream);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    adamw_kernel(const adamw_entry *entries, unsigned count, adamw_factors factors)
{
    const adamw_entry &entry = entries[entry_of_block(entries, count)];
    kernel_adamw_tensor t = entry.tensor;
    t.parameter = entry_memory(t.parameter);
    t.first_moment = entry_memory(t.first_moment);
    t.second_moment = entry_memory(t.second_moment);
    t.gradient = entry_memory(t.gradient);
    t.weight = entry_memory(t.weight);
    float keep = t.decay ? factors.keep : 1.0f;
    size_t first = (size_t)(blockIdx.x - entry.first_block) * BLOCK_ELEMENTS + threadIdx.x * LANES;

#pragma unroll
    for (int pack = 0; pack < PACKS; pack++) {
        size_t index = first + (size_t)pack * THREADS * LANES;
        if (index < t.count)
            adamw_pack<T>(t, index, keep, factors);
    }
}

/* Compute the power by repeated squaring: pow() differs in the last bit between C libraries. */
static double power(double base, uint64_t exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static adamw_factors factors_of(const struct kernel_adamw *options)
{
    double lr = (double)options->lr;
    adamw_factors f = {};

    f.gradient_scale = options->gradient_scale;
    f.beta1 = options->beta1;
    f.beta2 = options->beta2;
    f.rest1 = 1.0f - options->beta1;
    f.rest2 = 1.0f - options->beta2;
    f.keep = (float)(1.0 - lr * (double)options->weight_decay);
    f.step_size = (float)(lr / (1.0 - power((double)options->beta1, options->step)));
    f.second_scale = (float)(1.0 / sqrt(1.0 - power((double)options->beta2, options->step)));
    f.epsilon = options->epsilon;
    f.stochastic = options->stochastic_rounding;
    f.key = {{(uint32_t)options->rounding_seed, (uint32_t)(options->rounding_seed >> 32)}};
    f.step = options->step;
    return f;
}

template <typename T>
static void launch(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                   unsigned tensor_count, const adamw_factors &factors)
{
    adamw_entry entries[ENTRIES_MAX];
    unsigned blocks = 0, count = 0;

    for (unsigned i = 0; i < tensor_count; i++) {
        if (tensors[i].count == 0)
            continue;
        entries[count++] = {tensors[i], blocks};
        blocks += blocks_for(tensors[i].count, BLOCK_ELEMENTS);
    }
    if (count == 0)
        return;
    cuda_upload(device, device->workspace, entries, count * sizeof(entries[0]));
    LAUNCH(adamw_kernel<T>, blocks, THREADS, 0, device_stream(device),
           (const adamw_entry *)device->workspace, count, factors);
    DEVICE_LAUNCHED(device, "adamw");
}

template <typename T>
void cuda_adamw(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                size_t tensor_count, const struct kernel_adamw *options)
{
    adamw_factors factors = factors_of(options);

    for (size_t done = 0; done < tensor_count; done += ENTRIES_MAX) {
        size_t left = tensor_count - done;
        launch<T>(device, tensors + done, (unsigned)(left < ENTRIES_MAX ? left : ENTRIES_MAX),
                  factors);
    }
}

template void cuda_adamw<float>(struct kernel_device *, const struct kernel_adamw_tensor *, size_t,
                                const struct kernel_adamw *);
template void cuda_adamw<bfloat>(struct kernel_device *, const struct kernel_adamw_tensor *, size_t,
                                 const struct kernel_adamw *);
