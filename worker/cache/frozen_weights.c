#include "worker/cache/frozen_weights.h"

#include <errno.h>
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

/* Of the tensors alone: what lies between them is nobody's. */
static void read_unit(struct hash_stream *hash, const struct state_unit *unit)
{
    hash_stream_reset(hash);
    for (unsigned i = 0; i < unit->layout.tensor_count; i++) {
        const struct unit_tensor *tensor = &unit->layout.tensors[i];
        hash_stream_add(hash, unit->parameters + tensor->offset, tensor->count * sizeof(float));
    }
}

int frozen_weights_digest(struct frozen_weights *weights, const struct state *state,
                          unsigned unit_count, struct hash128 *ret_digest)
{
    struct hash_stream *hash = hash_stream_new();

    if (!hash)
        return -ENOMEM;
    for (unsigned unit = 0; unit < unit_count; unit++) {
        if (weights->known[unit])
            continue;
        read_unit(hash, &state->units[unit]);
        weights->digests[unit] = hash_stream_result(hash);
        weights->known[unit] = true;
    }
    hash_stream_free(hash);
    *ret_digest = hash_xxh3(weights->digests, unit_count * sizeof(*weights->digests));
    return 0;
}
