/*
 * Digests of tensors: threads compute the sums of their chunks, and the caller adds these. They are
 * sums of integers modulo 2^64, so no order is needed.
 */
#include <string.h>

#include "kernels/cpu/level.h"

#define CHUNK_WORDS  4096
#define BLOCK_CHUNKS 1024
#define CHUNK_GRAIN  4

struct digest {
    const float *values;
    size_t first, count; /* of a block, in words of the tensor */
    uint64_t *sums;
};

static uint64_t chunk_sum(const float *values, size_t first, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = first; i < first + count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof(word));
        sum += (uint64_t)word * (uint32_t)(2 * i + 1);
    }
    return sum;
}

static void digest_share(const void *context, size_t begin, size_t end,
                         struct device_scratch *scratch)
{
    const struct digest *digest = context;
    (void)scratch;
    for (size_t chunk = begin; chunk < end; chunk++) {
        size_t start = chunk * CHUNK_WORDS;
        digest->sums[chunk] = chunk_sum(digest->values, digest->first + start,
                                        MIN(digest->count - start, (size_t)CHUNK_WORDS));
    }
}

static uint64_t digest_of(struct kernel_device *device, const struct kernel_flat_tensor *tensor)
{
    uint64_t sums[BLOCK_CHUNKS], digest = 0;
    size_t block_words = (size_t)BLOCK_CHUNKS * CHUNK_WORDS;

    for (size_t first = 0; first < tensor->count; first += block_words) {
        size_t count = MIN(tensor->count - first, block_words);
        size_t chunks = (count + CHUNK_WORDS - 1) / CHUNK_WORDS;
        const struct digest block = {tensor->values, first, count, sums};
        device_for(device, chunks, CHUNK_GRAIN, digest_share, &block);
        for (size_t chunk = 0; chunk < chunks; chunk++)
            digest += sums[chunk];
    }
    return digest;
}

void OPERATION(digests)(struct kernel_device *device, const struct kernel_flat_tensor *tensors,
                        size_t tensor_count, uint64_t *ret_digests)
{
    for (size_t i = 0; i < tensor_count; i++)
        ret_digests[i] = digest_of(device, &tensors[i]);
}
