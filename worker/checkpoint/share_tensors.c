#include "worker/checkpoint/share_tensors.h"

#include <errno.h>
#include <stdio.h>

#include "worker/state/canonical.h"

struct division {
    const struct state *state;
    unsigned replica, replica_count; /* among the replicas that write */
    uint64_t *bytes;                 /* per replica: bytes assigned so far */
    struct share_tensors *own;
    unsigned room;
};

static unsigned owner_of(struct division *division, const struct canonical_tensor *at, bool frozen)
{
    unsigned owner = 0;

    if (frozen)
        return at->unit % division->replica_count;
    for (unsigned i = 1; i < division->replica_count; i++)
        if (division->bytes[i] < division->bytes[owner])
            owner = i;
    division->bytes[owner] += at->tensor->count * sizeof(float);
    return owner;
}

static struct checkpoint_tensor describe(const struct state *state,
                                         const struct canonical_tensor *at, bool frozen)
{
    struct checkpoint_tensor tensor = {
        .role = at->role,
        .order = at->order,
        .rank = at->tensor->rank,
        .data = canonical_memory(state, at),
        .count = at->tensor->count,
        .frozen = frozen,
        .unit = at->unit,
    };

    snprintf(tensor.name, sizeof(tensor.name), "%s", at->tensor->name);
    for (unsigned i = 0; i < at->tensor->rank; i++)
        tensor.shape[i] = at->tensor->shape[i];
    return tensor;
}

static int divide(void *context, const struct canonical_tensor *at)
{
    struct division *division = context;
    struct share_tensors *own = division->own;
    bool frozen = at->unit < state_frozen_units(division->state);

    if (owner_of(division, at, frozen) != division->replica)
        return 0;
    assert(own->count < division->room);
    own->list[own->count++] = describe(division->state, at, frozen);
    own->size_bytes += at->tensor->count * sizeof(float);
    return 0;
}

/* Count the writing replicas of @stage before replica @end. */
static unsigned count_writers(const struct plan_layout *layout, unsigned stage, unsigned end,
                              const bool *left_out)
{
    unsigned count = 0;

    for (unsigned replica = 0; replica < end; replica++)
        count += !left_out || !left_out[replica * layout->stage_count + stage];
    return count;
}

int share_tensors_of(const struct state *state, const struct plan_layout *layout, unsigned rank,
                     const bool *left_out, struct share_tensors *ret_tensors)
{
    unsigned stage = rank % layout->stage_count;
    AUTO_FREE uint64_t *bytes = calloc(layout->replica_count, sizeof(*bytes));
    struct share_tensors own = {0};
    struct division division = {
        .state = state,
        .replica = count_writers(layout, stage, rank / layout->stage_count, left_out),
        .replica_count = count_writers(layout, stage, layout->replica_count, left_out),
        .bytes = bytes,
        .own = &own,
        .room = canonical_count(state),
    };
    const unsigned *first = &layout->stage_first_unit[stage];

    own.list = calloc((size_t)division.room + 1, sizeof(*own.list));
    if (!bytes || !own.list) {
        share_tensors_done(&own);
        return -ENOMEM;
    }
    canonical_visit(state, first[0], first[1] - first[0], divide, &division);
    *ret_tensors = own;
    return 0;
}

void share_tensors_done(struct share_tensors *tensors)
{
    free(tensors->list);
    *tensors = (struct share_tensors){0};
}
