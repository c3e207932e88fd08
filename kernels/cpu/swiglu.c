/*
 * SwiGLU (Shazeer, "GLU variants improve transformer", 2020): silu(gate) up, where silu(x) is x
 * times the sigmoid of x. A row is [gate|up].
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector_math.h"

#define ROW_GRAIN 4

struct swiglu {
    float *output, *d_gate_up;
    const float *gate_up, *d_output;
    size_t width;
};

static void forward_row(const struct swiglu *s, size_t row)
{
    const float *gate = s->gate_up + row * 2 * s->width, *up = gate + s->width;
    float *output = s->output + row * s->width;

    for (size_t c = 0; c < s->width; c += VEC_LANES) {
        size_t left = s->width - c;
        vec x = vec_load_part(gate + c, left, 0.0f), value, complement;
        vec_sigmoid(x, &value, &complement);
        vec_store_part(output + c, vec_mul(vec_mul(x, value), vec_load_part(up + c, left, 0.0f)),
                       left);
    }
}

/* silu' = s + x s (1 - s) with s the sigmoid of x */
static void backward_row(const struct swiglu *s, size_t row)
{
    size_t at = row * 2 * s->width;
    const float *gate = s->gate_up + at, *up = gate + s->width;
    const float *d_output = s->d_output + row * s->width;
    float *d_gate = s->d_gate_up + at, *d_up = d_gate + s->width;

    for (size_t c = 0; c < s->width; c += VEC_LANES) {
        size_t left = s->width - c;
        vec x = vec_load_part(gate + c, left, 0.0f), y = vec_load_part(up + c, left, 0.0f);
        vec d = vec_load_part(d_output + c, left, 0.0f), value, complement;
        vec_sigmoid(x, &value, &complement);
        vec silu = vec_mul(x, value), slope = vec_fma(silu, complement, value);
        vec_store_part(d_gate + c, vec_mul(vec_mul(d, y), slope), left);
        vec_store_part(d_up + c, vec_mul(d, silu), left);
    }
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        forward_row(context, row);
}

static void backward_share(const void *context, size_t begin, size_t end,
                           struct device_scratch *scratch)
{
    (void)scratch;
    for (size_t row = begin; row < end; row++)
        backward_row(context, row);
}

void OPERATION(swiglu_forward)(struct kernel_device *device, void *output, const void *gate_up,
                               size_t rows, size_t width)
{
    struct swiglu s = {.output = output, .gate_up = gate_up, .width = width};
    device_for(device, rows, ROW_GRAIN, forward_share, &s);
}

void OPERATION(swiglu_backward)(struct kernel_device *device, void *d_gate_up, const void *d_output,
                                const void *gate_up, size_t rows, size_t width)
{
    struct swiglu s = {
        .d_gate_up = d_gate_up, .gate_up = gate_up, .d_output = d_output, .width = width};
    device_for(device, rows, ROW_GRAIN, backward_share, &s);
}
