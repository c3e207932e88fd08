#include "worker/cache/frozen_weights.h"

#include <stdlib.h>

#include "base/hash.h"
#include "elastic/step/step_record.h"

struct frozen_weights {
    bool known[STEP_RECORD_UNITS_MAX];
    struct hash128 digests[STEP_RECORD_UNITS_MAX];
};

struct frozen_weights *frozen_weights_new(void)
{
    return calloc(1, sizeof(struct frozen_weights));
}

void frozen_weights_free(struct frozen_weights *weights)
{
    free(weights);
}

void frozen_weights_forget(struct frozen_weights *weights)
{
    if (weights)
        *weights = (struct frozen_weights){0};
}

/* Read the tensors alone: the padding between them has no defined content. */
static struct hash128 read_unit(const struct state *state, const struct state_unit *unit)
{
    struct kernel_flat_tensor tensors[UNIT_TENSORS_MAX];
    uint64_t digests[UNIT_TENSORS_MAX];
    unsigned count = unit->layout.tensor_count;

    for (unsigned i = 0; i < count; i++)
        tensors[i] =
            (struct kernel_flat_tensor){.values = unit->parameters + unit->layout.tensors[i].offset,
                                        .count = unit->layout.tensors[i].count};
    state->kernel->digests(state->device, tensors, count, digests);
    return hash_xxh3(digests, count * sizeof(*digests));
}

struct hash128 frozen_weights_digest(struct frozen_weights *weights, const struct state *state,
                                     unsigned unit_count)
{
    for (unsigned unit = 0; unit < unit_count; unit++) {
        if (weights->known[unit])
            continue;
        weights->digests[unit] = read_unit(state, &state->units[unit]);
        weights->known[unit] = true;
    }
    return hash_xxh3(weights->digests, unit_count * sizeof(*weights->digests));
}
