#include "worker/step/tied_embedding.h"

#include <errno.h>

#include "worker/device/tags.h"

struct tied_embedding {
    const struct engine *engine; /* borrowed */
    float *theirs; /* the other end's gradient, in the arena; NULL when both ends are here */
    struct tensor_channel send, receive;
};

static bool has_embedding(const struct engine_part *part)
{
    return part->first_unit == 0;
}

static bool has_head(const struct engine *engine)
{
    return engine->part.first_unit + engine->part.unit_count == engine->state->unit_count;
}

static bool needed(const struct engine *engine)
{
    return state_tied(engine->state) && (has_embedding(&engine->part) || has_head(engine));
}

static const struct unit_tensor *table_of(const struct engine *engine, unsigned unit)
{
    const struct unit_layout *layout = &engine->state->units[unit].layout;

    if (unit == 0)
        return &layout->tensors[0];
    for (unsigned i = 0; i < layout->tensor_count; i++)
        if (layout->tensors[i].mirror)
            return &layout->tensors[i];
    assert(false && "a tied head without a mirror");
    return NULL;
}

static float *table_gradient(const struct engine *engine, unsigned unit)
{
    return gradients_reduced(engine->gradients)[unit - engine->part.first_unit] +
           table_of(engine, unit)->offset;
}

static bool both_ends(const struct engine *engine)
{
    return has_embedding(&engine->part) && has_head(engine);
}

/* Return the end of the table on this stage, when the other end is on another stage. */
static unsigned own_unit(const struct engine *engine)
{
    return has_head(engine) ? engine->state->unit_count - 1 : 0;
}

static int open_channels(struct tied_embedding *tie)
{
    const struct engine *engine = tie->engine;
    unsigned other_stage = has_head(engine) ? 0 : engine->plan->layout.stage_count - 1;
    struct tensor_channel_options options = {
        .pinned = engine->state->pinned,
        .carrier = engine->routes->over_mesh,
        .send_queue = engine->channels.send_queue,
        .peer = plan_layout_rank(&engine->plan->layout, engine->part.replica, other_stage),
        .size_bytes = table_of(engine, own_unit(engine))->count * sizeof(float),
    };
    int status = arena_take(engine->state->arena, options.size_bytes, (void **)&tie->theirs);

    options.buffer = tie->theirs;
    if (!status)
        status = tensor_channel_init(&tie->receive, &options);
    options.buffer = table_gradient(engine, own_unit(engine));
    return status ? status : tensor_channel_init(&tie->send, &options);
}

int tied_embedding_new(struct engine *engine, struct tied_embedding **ret_tie)
{
    struct tied_embedding *tie;
    int status = 0;

    *ret_tie = NULL;
    if (!needed(engine))
        return 0;
    tie = calloc(1, sizeof(*tie));
    if (!tie)
        return -ENOMEM;
    tie->engine = engine;
    if (!both_ends(engine))
        status = open_channels(tie);
    if (status)
        tied_embedding_free(tie);
    else
        *ret_tie = tie;
    return status;
}

void tied_embedding_free(struct tied_embedding *tie)
{
    if (!tie)
        return;
    tensor_channel_close(&tie->send);
    tensor_channel_close(&tie->receive);
    free(tie);
}

static int tie_local(const struct engine *engine)
{
    const struct state *state = engine->state;
    unsigned head = state->unit_count - 1;
    size_t count = table_of(engine, 0)->count;

    state->kernel->tree_add(state->device, table_gradient(engine, 0), table_gradient(engine, 0),
                            table_gradient(engine, head), count);
    state->kernel->copy(state->device, table_gradient(engine, head), table_gradient(engine, 0),
                        count * sizeof(float));
    return 0;
}

static int tie_remote(struct tied_embedding *tie)
{
    const struct engine *engine = tie->engine;
    const struct state *state = engine->state;
    size_t count = table_of(engine, own_unit(engine))->count;
    uint64_t tag = tag_make(TAG_TIE, state->hold.step, 0);
    float *mine = table_gradient(engine, own_unit(engine));
    int status = tensor_channel_receive(&tie->receive, tag);

    if (!status)
        status = tensor_channel_send(&tie->send, tag);
    if (!status)
        status = tensor_channel_complete(&tie->send);
    if (!status)
        status = tensor_channel_land(&tie->receive);
    if (status)
        return status;
    if (has_head(engine))
        state->kernel->tree_add(state->device, mine, tie->theirs, mine, count);
    else
        state->kernel->tree_add(state->device, mine, mine, tie->theirs, count);
    tensor_channel_used(&tie->receive);
    return 0;
}

int tied_embedding_exchange(struct tied_embedding *tie)
{
    if (!tie)
        return 0;
    return both_ends(tie->engine) ? tie_local(tie->engine) : tie_remote(tie);
}
