/*
 * Sums of squares of tensors: threads compute the partial sums of the chunks, and the caller adds
 * them in index order. Working in blocks of chunks keeps the partial sums on the stack.
 */
#include "kernels/cpu/level.h"
#include "kernels/cpu/vector.h"

#define BLOCK_CHUNKS 1024
#define CHUNK_GRAIN  4

struct norm {
    const float *values;
    size_t count;
    double *partial_sums;
};

static double chunk_sum(const float *values, size_t count)
{
    vec_double sum = vec_double_zero();
    for (size_t i = 0; i < count; i += VEC_LANES)
        sum = vec_double_add_squares(sum, vec_load_part(values + i, count - i, 0.0f));
    return vec_double_sum(sum);
}

static void norm_share(const void *context, size_t begin, size_t end,
                       struct device_scratch *scratch)
{
    const struct norm *norm = context;
    (void)scratch;
    for (size_t chunk = begin; chunk < end; chunk++) {
        size_t start = chunk * KERNEL_NORM_CHUNK;
        size_t count = MIN(norm->count - start, (size_t)KERNEL_NORM_CHUNK);
        norm->partial_sums[chunk] = chunk_sum(norm->values + start, count);
    }
}

static double norm_squared(struct kernel_device *device, const float *values, size_t count)
{
    double partial_sums[BLOCK_CHUNKS], sum = 0.0;

    for (size_t start = 0; start < count; start += BLOCK_CHUNKS * KERNEL_NORM_CHUNK) {
        size_t left = MIN(count - start, (size_t)BLOCK_CHUNKS * KERNEL_NORM_CHUNK);
        size_t chunks = (left + KERNEL_NORM_CHUNK - 1) / KERNEL_NORM_CHUNK;
        struct norm norm = {values + start, left, partial_sums};
        device_for(device, chunks, CHUNK_GRAIN, norm_share, &norm);
        for (size_t chunk = 0; chunk < chunks; chunk++)
            sum += partial_sums[chunk];
    }
    return sum;
}

void OPERATION(norms_squared)(struct kernel_device *device,
                              const struct kernel_flat_tensor *tensors, size_t tensor_count,
                              double *ret_sums)
{
    for (size_t i = 0; i < tensor_count; i++)
        ret_sums[i] = norm_squared(device, tensors[i].values, tensors[i].count);
}
