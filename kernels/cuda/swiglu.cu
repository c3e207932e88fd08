/*
 * SwiGLU: silu(gate) up, the same formulas as kernels/cpu/swiglu.c. Rows are [gate|up]. The output
 * is processed as a flat array, whose packs of 16 bytes stay within a row if the width is a
 * multiple of a pack.
 */
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/operations.cuh"
#include "kernels/cuda/sigmoid.cuh"

/* Positions of the gates of rows of @width; the ups are @width further. */
template <typename T, bool ALIGNED> struct gated_rows {
    static constexpr int LANES = lanes_of<T>::count;
    size_t width;

    __device__ size_t gate(size_t index) const
    {
        return index / width * width + index;
    }
    /* Go to the next element; a pack may cross rows. */
    __device__ void step(size_t &at, size_t &column) const
    {
        bool last = ++column == width;
        at += last ? width + 1 : 1;
        column = last ? 0 : column;
    }
    __device__ void load(float (&gates)[LANES], float (&ups)[LANES], const T *from, size_t index,
                         size_t left) const
    {
        if (ALIGNED) {
            load_pack<T, true>(gates, from + gate(index), left, 0.0f);
            load_pack<T, true>(ups, from + gate(index) + width, left, 0.0f);
            return;
        }
        size_t at = gate(index), column = index % width;
#pragma unroll
        for (int i = 0; i < LANES; i++, step(at, column)) {
            gates[i] = (size_t)i < left ? to_float(from[at]) : 0.0f;
            ups[i] = (size_t)i < left ? to_float(from[at + width]) : 0.0f;
        }
    }
    __device__ void store(T *to, const float (&gates)[LANES], const float (&ups)[LANES],
                          size_t index, size_t left) const
    {
        if (ALIGNED) {
            store_pack<T, true>(to + gate(index), gates, left);
            store_pack<T, true>(to + gate(index) + width, ups, left);
            return;
        }
        size_t at = gate(index), column = index % width;
#pragma unroll
        for (int i = 0; i < LANES; i++, step(at, column))
            if ((size_t)i < left) {
                to[at] = from_float<T>(gates[i]);
                to[at + width] = from_float<T>(ups[i]);
            }
    }
};

template <typename T, bool ALIGNED> struct swiglu_forward_map {
    typedef T element;
    struct input {
        float gate[lanes_of<T>::count], up[lanes_of<T>::count];
    };
    T *output;
    const T *gate_up;
    gated_rows<T, ALIGNED> rows;

    __device__ void load(input &in, size_t index, size_t left) const
    {
        rows.load(in.gate, in.up, gate_up, index, left);
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
#pragma unroll
        for (int i = 0; i < lanes_of<T>::count; i++) {
            float value, complement;
            sigmoid(in.gate[i], &value, &complement);
            in.gate[i] = in.gate[i] * value * in.up[i];
        }
        store_pack<T, true>(output + index, in.gate, left);
    }
};

template <typename T, bool ALIGNED> struct swiglu_backward_map {
    typedef T element;
    struct input {
        float gate[lanes_of<T>::count], up[lanes_of<T>::count], d[lanes_of<T>::count];
    };
    T *d_gate_up;
    const T *d_output, *gate_up;
    gated_rows<T, ALIGNED> rows;

    __device__ void load(input &in, size_t index, size_t left) const
    {
        rows.load(in.gate, in.up, gate_up, index, left);
        load_pack<T, true>(in.d, d_output + index, left, 0.0f);
    }
    __device__ void store(input &in, size_t index, size_t left) const
    {
#pragma unroll
        for (int i = 0; i < lanes_of<T>::count; i++) {
            float value, complement;
            sigmoid(in.gate[i], &value, &complement);
            float silu = in.gate[i] * value, slope = silu * complement + value;
            in.gate[i] = in.d[i] * in.up[i] * slope;
            in.up[i] = in.d[i] * silu;
        }
        rows.store(d_gate_up, in.gate, in.up, index, left);
    }
};

template <typename T>
void cuda_swiglu_forward(struct kernel_device *device, void *output, const void *gate_up,
                         size_t rows, size_t width)
{
    if (width % lanes_of<T>::count == 0)
        map(device, swiglu_forward_map<T, true>{(T *)output, (const T *)gate_up, {width}},
            rows * width, "swiglu_forward");
    else
        map(device, swiglu_forward_map<T, false>{(T *)output, (const T *)gate_up, {width}},
            rows * width, "swiglu_forward");
}

template <typename T>
void cuda_swiglu_backward(struct kernel_device *device, void *d_gate_up, const void *d_output,
                          const void *gate_up, size_t rows, size_t width)
{
    T *to = (T *)d_gate_up;
    const T *d = (const T *)d_output, *from = (const T *)gate_up;

    if (width % lanes_of<T>::count == 0)
        map(device, swiglu_backward_map<T, true>{to, d, from, {width}}, rows * width,
            "swiglu_backward");
    else
        map(device, swiglu_backward_map<T, false>{to, d, from, {width}}, rows * width,
            "swiglu_backward");
}

#define INSTANTIATE(T)                                                                             \
    template void cuda_swiglu_forward<T>(struct kernel_device *, void *, const void *, size_t,     \
                                         size_t);                                                  \
    template void cuda_swiglu_backward<T>(struct kernel_device *, void *, const void *,            \
                                          const void *, size_t, size_t);
INSTANTIATE(float)
INSTANTIATE(bfloat)
