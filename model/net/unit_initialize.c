/*
 * GPT-2's initialization, for every family. Every value is a function of (seed, unit, tensor,
 * position) through Philox, so a worker makes exactly the units it holds and every layout starts
 * from the same bits.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/philox.h"
#include "model/net/streams.h"
#include "model/net/unit.h"

#define DEVIATION          0.02
#define POSITION_DEVIATION 0.01

/* Radford et al. 2019: each of the 2 * layers projections that add to the residual stream starts
   smaller, so that the stream's variance does not grow with depth. */
static float matrix_deviation(const struct model_spec *spec, enum unit_part part)
{
    if (part == UNIT_OUT_WEIGHT)
        return (float)(DEVIATION / sqrt(2.0 * spec->layers));
    return part == UNIT_POSITIONS ? (float)POSITION_DEVIATION : (float)DEVIATION;
}

static uint64_t tensor_stream(unsigned unit, unsigned tensor, const struct unit_tensor *layout)
{
    if (layout->mirror) /* the same values as the token table, unit 0's first tensor */
        return 0;
    return (uint64_t)unit << 32 | tensor;
}

static void fill_ones(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = 1.0f;
}

#define SHARE_MIN ((size_t)1 << 16) /* values: fewer take less time than the start of a thread */

/* One thread's part of a unit: values [first, end) of each matrix, from share and share_count. */
struct initialization {
    const struct model_spec *spec;
    const struct unit_layout *layout;
    float *parameters;
    struct philox_key key;
    unsigned unit, share, share_count;
    pthread_t thread;
    bool started;
};

/* Return the first value of share @share, at a counter of Philox, which makes four values. */
static size_t share_first(size_t count, unsigned share, unsigned share_count)
{
    size_t blocks = (count + 3) / 4;
    return MIN(count,
               blocks / share_count * share * 4 + MIN(blocks % share_count, (size_t)share) * 4);
}

static void *fill_share(void *argument)
{
    const struct initialization *part = argument;
    unsigned level = philox_normal_levels() - 1;

    for (unsigned i = 0; i < part->layout->tensor_count; i++) {
        const struct unit_tensor *tensor = &part->layout->tensors[i];
        size_t first = share_first(tensor->count, part->share, part->share_count);
        size_t end = share_first(tensor->count, part->share + 1, part->share_count);
        float *values = part->parameters + tensor->offset + first;

        if (tensor->rank == 2)
            philox_fill_normal_part(part->key, tensor_stream(part->unit, i, tensor), 0.0f,
                                    matrix_deviation(part->spec, tensor->part), level, first,
                                    values, end - first);
        else if (model_part_is_norm(tensor->part))
            fill_ones(values, end - first);
    }
    return NULL;
}

void model_unit_initialize(const struct model_spec *spec, unsigned unit, uint64_t seed,
                           unsigned thread_count, float *ret_parameters)
{
    struct initialization parts[MODEL_INITIALIZE_THREADS_MAX];
    struct unit_layout layout;
    model_unit_layout(spec, unit, &layout);
    unsigned share_count = MIN(thread_count, (unsigned)MODEL_INITIALIZE_THREADS_MAX);

    if (layout.count < SHARE_MIN || share_count == 0)
        share_count = 1;
    memset(ret_parameters, 0, layout.count * sizeof(float));
    for (unsigned share = 0; share < share_count; share++) {
        struct initialization *part = &parts[share];
        *part = (struct initialization){.spec = spec,
                                        .layout = &layout,
                                        .parameters = ret_parameters,
                                        .key = philox_key_make(seed, MODEL_STREAM_INITIALIZE),
                                        .unit = unit,
                                        .share = share,
                                        .share_count = share_count};
        part->started = share > 0 && !pthread_create(&part->thread, NULL, fill_share, part);
    }
    for (unsigned share = 0; share < share_count; share++) { /* shares without a thread */
        if (!parts[share].started)
            fill_share(&parts[share]);
    }
    for (unsigned share = 0; share < share_count; share++) {
        if (parts[share].started)
            pthread_join(parts[share].thread, NULL);
    }
}
