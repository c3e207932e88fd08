/*
 * GELU, tanh form (Hendrycks and Gimpel, "Gaussian error linear units", 2016):
 *
 *     gelu(x) = x (1 + tanh u) / 2,   u = sqrt(2 / pi) (x + 0.044715 x^3)
 *
 * (1 + tanh u) / 2 is the sigmoid of 2u, which is accurate even where tanh is close to -1.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector_math.h"

#define GRAIN 4096

/* 2 u = x (LINEAR + CUBIC x^2) */
#define LINEAR 0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define CUBIC  0x1.2444f2p-4f /* LINEAR times 0.044715 */

struct gelu {
    float *output;
    const float *input, *d_output;
};

static vec gelu_vec(vec x)
{
    vec value, complement;
    vec slope = vec_fma(vec_set(CUBIC), vec_mul(x, x), vec_set(LINEAR));
    vec_sigmoid(vec_mul(x, slope), &value, &complement);
    return vec_mul(x, value);
}

/* s(2u) + x s(2u) (1 - s(2u)) (2u)' */
static vec gelu_derivative(vec x)
{
    vec value, complement;
    vec square = vec_mul(x, x);
    vec slope = vec_fma(vec_set(CUBIC), square, vec_set(LINEAR));
    vec derivative = vec_fma(vec_set(3.0f * CUBIC), square, vec_set(LINEAR));
    vec_sigmoid(vec_mul(x, slope), &value, &complement);
    return vec_fma(vec_mul(value, complement), vec_mul(x, derivative), value);
}

static void forward_share(const void *context, size_t begin, size_t end,
                          struct device_scratch *scratch)
{
    const struct gelu *gelu = context;
    (void)scratch;
    for (size_t i = begin; i < end; i += VEC_LANES) {
        vec x = vec_load_part(gelu->input + i, end - i, 0.0f);
        vec_store_part(gelu->output + i, gelu_vec(x), end - i);
    }
}

static void backward_share(const void *context, size_t begin, size_t end,
                           struct device_scratch *scratch)
{
    const struct gelu *gelu = context;
    (void)scratch;
    for (size_t i = begin; i < end; i += VEC_LANES) {
        vec x = vec_load_part(gelu->input + i, end - i, 0.0f);
        vec d_output = vec_load_part(gelu->d_output + i, end - i, 0.0f);
        vec_store_part(gelu->output + i, vec_mul(d_output, gelu_derivative(x)), end - i);
    }
}

void OPERATION(gelu_forward)(struct kernel_device *device, void *output, const void *input,
                             size_t count)
{
    struct gelu gelu = {.output = output, .input = input};
    device_for(device, count, GRAIN, forward_share, &gelu);
}

void OPERATION(gelu_backward)(struct kernel_device *device, void *d_input, const void *d_output,
                              const void *input, size_t count)
{
    struct gelu gelu = {.output = d_input, .input = input, .d_output = d_output};
    device_for(device, count, GRAIN, backward_share, &gelu);
}
