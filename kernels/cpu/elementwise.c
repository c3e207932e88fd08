/* Sums of two tensors: the residual stream and the nodes of the reduction tree. */
#include "kernels/cpu/level.h"
#include "kernels/cpu/row.h"

#define GRAIN 16384

struct sum {
    float *output;
    const float *a, *b;
};

static void sum_share(const void *context, size_t begin, size_t end, struct device_scratch *scratch)
{
    const struct sum *sum = context;
    (void)scratch;
    row_add(sum->output + begin, sum->a + begin, sum->b + begin, end - begin);
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

/* Copy the parameters: activations are f32, as parameters are. */
void OPERATION(weights)(struct kernel_device *device, void *weights, const float *parameters,
                        size_t count)
{
    if (weights != parameters)
        device_copy(device, weights, parameters, count * sizeof(float));
}

void OPERATION(values)(struct kernel_device *device, float *values, const void *activations,
                       size_t count)
{
    if (values != activations)
        device_copy(device, values, activations, count * sizeof(float));
}
