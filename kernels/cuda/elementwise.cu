/* Operations on flat memory: GELU, sums, casts. */
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/operations.cuh"

template <typename T> struct pack_of_one {
    float x[lanes_of<T>::count];
};

template <typename T> struct pack_of_two {
    float x[lanes_of<T>::count], y[lanes_of<T>::count];
};

template <typename T> struct gelu_forward_map {
    typedef T element;
    typedef pack_of_one<T> input;
    T *output;
    const T *source;

    __device__ void load(input &in, size_t index, size_t left) const
    {
        load_pack<T, true>(in.x, source + index, left, 0.0f);
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
#pragma unroll
        for (int i = 0; i < lanes_of<T>::count; i++)
            in.x[i] = gelu(in.x[i]);
        store_pack<T, true>(output + index, in.x, left);
    }
};

template <typename T> struct gelu_backward_map {
    typedef T element;
    typedef pack_of_two<T> input;
    T *d_input;
    const T *d_output, *source;

    __device__ void load(input &in, size_t index, size_t left) const
    {
        load_pack<T, true>(in.x, source + index, left, 0.0f);
        load_pack<T, true>(in.y, d_output + index, left, 0.0f);
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
#pragma unroll
        for (int i = 0; i < lanes_of<T>::count; i++)
            in.x[i] = in.y[i] * gelu_derivative(in.x[i]);
        store_pack<T, true>(d_input + index, in.x, left);
    }
};

template <typename T> struct sum_map {
    typedef T element;
    typedef pack_of_two<T> input;
    T *output;
    const T *a, *b;

    __device__ void load(input &in, size_t index, size_t left) const
    {
        load_pack<T, true>(in.x, a + index, left, 0.0f);
        load_pack<T, true>(in.y, b + index, left, 0.0f);
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
#pragma unroll
        for (int i = 0; i < lanes_of<T>::count; i++)
            in.x[i] += in.y[i];
        store_pack<T, true>(output + index, in.x, left);
    }
};

/* Cast four elements at a time: the f32 side has 16-byte accesses, the other side accesses of four
 * elements.
 */
template <typename To, typename From> struct cast_map {
    typedef float element;
    struct input {
        float x[4];
    };
    To *to;
    const From *from;

    __device__ void load(input &in, size_t index, size_t left) const
    {
        load_four(in.x, from + index, left);
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
        store_four(to + index, in.x, left);
    }
};

template <typename T>
void cuda_gelu_forward(struct kernel_device *device, void *output, const void *input, size_t count)
{
    map(device, gelu_forward_map<T>{(T *)output, (const T *)input}, count, "gelu_forward");
}

template <typename T>
void cuda_gelu_backward(struct kernel_device *device, void *d_input, const void *d_output,
                        const void *input, size_t count)
{
    map(device, gelu_backward_map<T>{(T *)d_input, (const T *)d_output, (const T *)input}, count,
        "gelu_backward");
}

template <typename T>
void cuda_residual(struct kernel_device *device, void *output, const void *a, const void *b,
                   size_t count)
{
    map(device, sum_map<T>{(T *)output, (const T *)a, (const T *)b}, count, "residual");
}

void cuda_tree_add(struct kernel_device *device, float *output, const float *a, const float *b,
                   size_t count)
{
    map(device, sum_map<float>{output, a, b}, count, "tree_add");
}

template <typename T>
void cuda_weights(struct kernel_device *device, void *weights, const float *parameters,
                  size_t count)
{
    map(device, cast_map<T, float>{(T *)weights, parameters}, count, "weights");
}

template <typename T>
void cuda_values(struct kernel_device *device, float *values, const void *activations, size_t count)
{
    map(device, cast_map<float, T>{values, (const T *)activations}, count, "values");
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_gelu_forward<T>(struct kernel_device *, void *, const void *, size_t);      \
    template void cuda_gelu_backward<T>(struct kernel_device *, void *, const void *,              \
                                        const void *, size_t);                                     \
    template void cuda_residual<T>(struct kernel_device *, void *, const void *, const void *,     \
                                   size_t);                                                        \
    template void cuda_weights<T>(struct kernel_device *, void *, const float *, size_t);          \
    template void cuda_values<T>(struct kernel_device *, float *, const void *, size_t);
INSTANTIATE(float)
INSTANTIATE(bfloat)
