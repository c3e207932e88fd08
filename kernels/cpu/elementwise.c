/* Sums of two tensors: the residual stream and the nodes of the reduction tree. */
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"

#define GRAIN 16384

struct sum {
    float *output;
    const float *a, *b;
};

static void sum_share(const void *context, size_t begin, size_t end, struct device_scratch *scratch)
{
    const struct sum *sum = context;
    (void)scratch;
    for (size_t i = begin; i < end; i += VEC_LANES) {
        vec a = vec_load_part(sum->a + i, end - i, 0.0f);
        vec b = vec_load_part(sum->b + i, end - i, 0.0f);
        vec_store_part(sum->output + i, vec_add(a, b), end - i);
    }
}

void OPERATION(residual)(struct kernel_device *device, void *output, const void *a, const void *b,
                         size_t count)
{
    device_for(device, count, GRAIN, sum_share, &(struct sum){output, a, b});
}

void OPERATION(tree_add)(struct kernel_device *device, float *output, const float *a,
                         const float *b, size_t count)
{
    device_for(device, count, GRAIN, sum_share, &(struct sum){output, a, b});
}
