#include "worker/tie.h"

#include <errno.h>

#include "worker/tags.h"

static bool has_embedding(const struct engine *engine)
{
    return engine->first_unit == 0;
}

static bool has_head(const struct engine *engine)
{
    return engine->first_unit + engine->unit_count == engine->state->unit_count;
}

bool tie_needed(const struct engine *engine)
{
    return state_tied(engine->state) && (has_embedding(engine) || has_head(engine));
}

static const struct unit_tensor *table_of(const struct engine *engine, unsigned unit)
{
    const struct unit_layout *layout = &engine->state->units[unit].layout;

    if (unit == 0)
        return &layout->tensors[0];
    for (unsigned i = 0; i < layout->tensor_count; i++)
        if (layout->tensors[i].mirror)
            return &layout->tensors[i];
    assert(!"a tied head without a mirror");
    return NULL;
}

static float *table_gradient(const struct engine *engine, unsigned unit)
{
    return gradients_reduced(engine->gradients)[unit - engine->first_unit] +
           table_of(engine, unit)->offset;
}

int tie_allocate(struct engine *engine)
{
    size_t count = table_of(engine, has_head(engine) ? engine->state->unit_count - 1 : 0)->count;

    if (has_embedding(engine) && has_head(engine))
        return 0;
    return engine->state->kernel->allocate(engine->state->device, count * sizeof(float),
                                           (void **)&engine->tie_buffer);
}

void tie_release(struct engine *engine)
{
    engine->state->kernel->release(engine->state->device, engine->tie_buffer);
    engine->tie_buffer = NULL;
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

static int tie_remote(const struct engine *engine)
{
    const struct state *state = engine->state;
    unsigned unit = has_head(engine) ? state->unit_count - 1 : 0;
    unsigned other_stage = has_head(engine) ? 0 : engine->plan->stage_count - 1;
    unsigned peer = plan_rank(engine->plan, engine->replica, other_stage);
    size_t count = table_of(engine, unit)->count;
    uint64_t tag = tag_make(TAG_TIE, state->hold.step, 0);
    struct mesh_request *send, *receive;
    float *mine = table_gradient(engine, unit);
    int status =
        mesh_receive(engine->mesh, peer, tag, engine->tie_buffer, count * sizeof(float), &receive);

    if (status)
        return status;
    status = mesh_send(engine->mesh, peer, tag, mine, count * sizeof(float), &send);
    if (!status)
        status = mesh_wait(send, UINT64_MAX);
    int received = mesh_wait(receive, UINT64_MAX);
    if (status || received)
        return status ? status : received;
    if (has_head(engine))
        state->kernel->tree_add(state->device, mine, engine->tie_buffer, mine, count);
    else
        state->kernel->tree_add(state->device, mine, mine, engine->tie_buffer, count);
    return 0;
}

int tie_exchange(struct engine *engine)
{
    return has_embedding(engine) && has_head(engine) ? tie_local(engine) : tie_remote(engine);
}
