/*
 * GPT-2's initialization, for every family. Every value is a function of (seed, unit, tensor,
 * position) through Philox, so a worker makes exactly the units it holds and every layout starts
 * from the same bits.
 */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "model/streams.h"
#include "model/unit.h"

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

void model_unit_initialize(const struct model_spec *spec, unsigned unit, uint64_t seed,
                           float *ret_parameters)
{
    struct philox_key key = philox_key_make(seed, MODEL_STREAM_INITIALIZE);
    struct unit_layout layout;
    model_unit_layout(spec, unit, &layout);
    memset(ret_parameters, 0, layout.count * sizeof(float));

    for (unsigned i = 0; i < layout.tensor_count; i++) {
        const struct unit_tensor *tensor = &layout.tensors[i];
        float *values = ret_parameters + tensor->offset;

        if (tensor->rank == 2)
            philox_fill_normal(key, tensor_stream(unit, i, tensor), 0.0f,
                               matrix_deviation(spec, tensor->part), values, tensor->count);
        else if (model_part_is_norm(tensor->part))
            fill_ones(values, tensor->count);
    }
}
