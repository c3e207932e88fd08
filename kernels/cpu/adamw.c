/*
 * AdamW, one pass over memory. Bias correction multiplies in f64 by repeated squaring and not with
 * pow(), which differs in the last bit between C libraries.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"

#define GRAIN 16384

struct adamw {
    float *parameter, *first, *second;
    const float *gradient;
    float gradient_scale, beta1, beta2;
    float keep;         /* 1 - lr decay */
    float step_size;    /* lr / (1 - beta1^step) */
    float second_scale; /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
};

static double power(double base, uint64_t exponent)
{
    double result = 1.0;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static void adamw_share(const void *context, size_t begin, size_t end,
                        struct device_scratch *scratch)
{
    const struct adamw *o = context;
    const vec beta1 = vec_set(o->beta1), rest1 = vec_set(1.0f - o->beta1);
    const vec beta2 = vec_set(o->beta2), rest2 = vec_set(1.0f - o->beta2);
    (void)scratch;

    for (size_t i = begin; i < end; i += VEC_LANES) {
        size_t left = end - i;
        vec p = vec_load_part(o->parameter + i, left, 0.0f);
        vec m = vec_load_part(o->first + i, left, 0.0f);
        vec v = vec_load_part(o->second + i, left, 0.0f);
        vec g = vec_load_part(o->gradient + i, left, 0.0f);

        g = vec_mul(g, vec_set(o->gradient_scale));
        m = vec_fma(beta1, m, vec_mul(rest1, g));
        v = vec_fma(beta2, v, vec_mul(rest2, vec_mul(g, g)));
        vec root = vec_fma(vec_sqrt(v), vec_set(o->second_scale), vec_set(o->epsilon));
        vec move = vec_div(vec_mul(vec_set(o->step_size), m), root);
        p = vec_sub(vec_mul(p, vec_set(o->keep)), move);

        vec_store_part(o->parameter + i, p, left);
        vec_store_part(o->first + i, m, left);
        vec_store_part(o->second + i, v, left);
    }
}

static void step_tensor(struct kernel_device *device, const struct kernel_adamw_tensor *tensor,
                        struct adamw adamw)
{
    adamw.parameter = tensor->parameter;
    adamw.first = tensor->first_moment;
    adamw.second = tensor->second_moment;
    adamw.gradient = tensor->gradient;
    if (!tensor->decay)
        adamw.keep = 1.0f;
    device_for(device, tensor->count, GRAIN, adamw_share, &adamw);
}

void OPERATION(adamw)(struct kernel_device *device, const struct kernel_adamw_tensor *tensors,
                      size_t tensor_count, const struct kernel_adamw *options)
{
    double correction1 = 1.0 - power((double)options->beta1, options->step);
    double correction2 = 1.0 - power((double)options->beta2, options->step);
    double lr = (double)options->lr;
    const struct adamw adamw = {
        .gradient_scale = options->gradient_scale,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .keep = (float)(1.0 - lr * (double)options->weight_decay),
        .step_size = (float)(lr / correction1),
        .second_scale = (float)(1.0 / sqrt(correction2)),
        .epsilon = options->epsilon,
    };

    for (size_t i = 0; i < tensor_count; i++)
        step_tensor(device, &tensors[i], adamw);
}
