/*
 * Rotary position embedding, in place on the queries and keys of qkv. The pairs of all heads are
 * numbered as one flat array. If half a head is a multiple of a pack, a pack of pairs takes two
 * accesses of 16 bytes, and one or two each for cosines and sines, which all heads of a position
 * share through the L1 cache.
 */
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/operations.cuh"

template <typename T, bool ALIGNED> struct rotary_map {
    static constexpr int LANES = lanes_of<T>::count;
    typedef T element;
    struct input {
        float x[LANES], y[LANES];
    };
    struct place {
        size_t value, angle; /* of a pair's first column and of its cosine */
    };
    T *qkv;
    const float *angles;
    float sign; /* of the angle: -1 turns back */
    size_t context, heads, half, stride;

    __device__ place place_of(size_t pair) const
    {
        size_t row = pair / (heads * half), in_row = pair % (heads * half);
        size_t column = in_row % half;
        return {row * stride + in_row / half * 2 * half + column,
                row % context * 2 * half + column};
    }
    __device__ void turn(float &x, float &y, float cosine, float sine) const
    {
        float turned = x * cosine - y * (sine * sign);
        y = x * (sine * sign) + y * cosine;
        x = turned;
    }

    __device__ void load(input &in, size_t index, size_t left) const
    {
        if constexpr (ALIGNED) {
            const T *first = qkv + place_of(index).value;
            load_pack<T, true>(in.x, first, left, 0.0f);
            load_pack<T, true>(in.y, first + half, left, 0.0f);
        } else {
            for (size_t i = 0; i < LANES && i < left; i++) {
                const T *first = qkv + place_of(index + i).value;
                in.x[i] = to_float(first[0]);
                in.y[i] = to_float(first[half]);
            }
        }
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
        if constexpr (ALIGNED) {
            place at = place_of(index);
#pragma unroll
            for (int begin = 0; begin < LANES; begin += 4) {
                float cosines[4], sines[4];
                load_pack<float, true>(cosines, angles + at.angle + begin, 4, 0.0f);
                load_pack<float, true>(sines, angles + at.angle + half + begin, 4, 0.0f);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    turn(in.x[begin + i], in.y[begin + i], cosines[i], sines[i]);
            }
            store_pack<T, true>(qkv + at.value, in.x, left);
            store_pack<T, true>(qkv + at.value + half, in.y, left);
        } else {
            for (size_t i = 0; i < LANES && i < left; i++) {
                place at = place_of(index + i);
                turn(in.x[i], in.y[i], angles[at.angle], angles[at.angle + half]);
                qkv[at.value] = from_float<T>(in.x[i]);
                qkv[at.value + half] = from_float<T>(in.y[i]);
            }
        }
    }
};

template <typename T>
static void turn(struct kernel_device *device, T *qkv, const float *angles, float sign,
                 const struct kernel_attention &shape, const char *call)
{
    size_t depth = shape.width / shape.heads, half = depth / 2;
    size_t heads = shape.heads + shape.kv_heads;
    size_t stride = shape.width + 2 * shape.kv_heads * depth;
    size_t pairs = shape.batch * shape.context * heads * half;

    if (half % lanes_of<T>::count == 0)
        map(device, rotary_map<T, true>{qkv, angles, sign, shape.context, heads, half, stride},
            pairs, call);
    else
        map(device, rotary_map<T, false>{qkv, angles, sign, shape.context, heads, half, stride},
            pairs, call);
}

template <typename T>
void cuda_rotary_forward(struct kernel_device *device, void *qkv, const float *angles,
                         struct kernel_attention shape)
{
    turn(device, (T *)qkv, angles, 1.0f, shape, "rotary_forward");
}

template <typename T>
void cuda_rotary_backward(struct kernel_device *device, void *d_qkv, const float *angles,
                          struct kernel_attention shape)
{
    turn(device, (T *)d_qkv, angles, -1.0f, shape, "rotary_backward");
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_rotary_forward<T>(struct kernel_device *, void *, const float *,            \
                                         struct kernel_attention);                                 \
    template void cuda_rotary_backward<T>(struct kernel_device *, void *, const float *,           \
                                          struct kernel_attention);
INSTANTIATE(float)
INSTANTIATE(bfloat)
