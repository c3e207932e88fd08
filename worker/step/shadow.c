#include "worker/step/shadow.h"

#include <errno.h>
#include <string.h>

#include "worker/device/tags.h"

struct shadow {
    const struct engine *engine;
    int keeper; /* the rank that shadows this worker's stage, if this worker feeds it; else -1 */
    struct tensor_channel *sends;    /* per unit of this stage */
    bool *fed;                       /* per unit of this stage: sent in this step */
    float **gradients;               /* per unit of the model; NULL: no copy, or frozen */
    struct tensor_channel *receives; /* per unit of the model */
};

static bool keeps(const struct engine *engine, unsigned stage)
{
    return plan_layout_shadow_of(&engine->plan->layout, stage) == (int)engine->part.rank;
}

static size_t unit_bytes(const struct engine *engine, unsigned unit)
{
    return engine->state->units[unit].layout.count * sizeof(float);
}

static uint64_t unit_tag(const struct engine *engine, unsigned unit)
{
    return tag_make(TAG_SHADOW, engine->state->hold.step, unit);
}

static int open_channel(const struct shadow *shadow, struct tensor_channel *channel, unsigned unit,
                        float *gradient, unsigned peer)
{
    const struct engine *engine = shadow->engine;
    const struct tensor_channel_options options = {
        .pinned = engine->state->pinned,
        .carrier = engine->routes->over_mesh,
        .send_queue = engine->channels.send_queue,
        .peer = peer,
        .buffer = gradient,
        .size_bytes = unit_bytes(engine, unit),
    };

    return tensor_channel_init(channel, &options);
}

/* Receive from the worker of @stage that feeds this rank. */
static int open_stage(struct shadow *shadow, unsigned stage)
{
    const struct engine *engine = shadow->engine;
    const struct state *state = engine->state;
    unsigned first = MAX(engine->plan->layout.stage_first_unit[stage], engine->part.trained_from);
    int status = 0;

    for (unsigned unit = first; !status && unit < engine->plan->layout.stage_first_unit[stage + 1];
         unit++) {
        status =
            arena_take(state->arena, unit_bytes(engine, unit), (void **)&shadow->gradients[unit]);
        if (!status)
            status = open_channel(shadow, &shadow->receives[unit], unit, shadow->gradients[unit],
                                  plan_layout_rank(&engine->plan->layout, 0, stage));
    }
    return status;
}

static int open_sends(struct shadow *shadow)
{
    const struct engine *engine = shadow->engine;
    int status = 0;

    for (unsigned i = 0; !status && i < engine->part.unit_count; i++)
        if (engine->part.first_unit + i >= engine->part.trained_from)
            status =
                open_channel(shadow, &shadow->sends[i], engine->part.first_unit + i,
                             gradients_reduced(engine->gradients)[i], (unsigned)shadow->keeper);
    return status;
}

static int allocate(struct shadow *shadow)
{
    const struct engine *engine = shadow->engine;
    unsigned model_units = engine->state->unit_count;
    int status = 0;

    shadow->sends = calloc(engine->part.unit_count, sizeof(*shadow->sends));
    shadow->fed = calloc(engine->part.unit_count, sizeof(*shadow->fed));
    shadow->gradients = calloc(model_units, sizeof(*shadow->gradients));
    shadow->receives = calloc(model_units, sizeof(*shadow->receives));
    if (!shadow->sends || !shadow->fed || !shadow->gradients || !shadow->receives)
        return -ENOMEM;
    for (unsigned stage = 0; !status && stage < engine->plan->layout.stage_count; stage++)
        if (keeps(engine, stage))
            status = open_stage(shadow, stage);
    return status || shadow->keeper < 0 ? status : open_sends(shadow);
}

int shadow_new(const struct engine *engine, struct shadow **ret_shadow)
{
    int keeper = engine->part.replica == 0
                     ? plan_layout_shadow_of(&engine->plan->layout, engine->part.stage_index)
                     : -1;
    bool needed = keeper >= 0;
    struct shadow *shadow;

    for (unsigned stage = 0; stage < engine->plan->layout.stage_count; stage++)
        needed = needed || keeps(engine, stage);
    *ret_shadow = NULL;
    if (!needed)
        return 0;
    shadow = calloc(1, sizeof(*shadow));
    if (!shadow)
        return -ENOMEM;
    *shadow = (struct shadow){.engine = engine, .keeper = keeper};
    if (allocate(shadow)) {
        shadow_free(shadow);
        return -ENOMEM;
    }
    *ret_shadow = shadow;
    return 0;
}

static int complete_sends(struct shadow *shadow)
{
    int status = 0;

    for (unsigned i = 0; i < shadow->engine->part.unit_count; i++) {
        int one = tensor_channel_complete(&shadow->sends[i]);
        status = status ? status : one;
    }
    return status;
}

void shadow_free(struct shadow *shadow)
{
    if (!shadow)
        return;
    const struct state *state = shadow->engine->state;

    for (unsigned unit = 0; shadow->receives && unit < state->unit_count; unit++)
        tensor_channel_close(&shadow->receives[unit]);
    for (unsigned i = 0; shadow->sends && i < shadow->engine->part.unit_count; i++)
        tensor_channel_close(&shadow->sends[i]);
    free(shadow->sends);
    free(shadow->fed);
    free(shadow->gradients);
    free(shadow->receives);
    free(shadow);
}

static int receive_stage(struct shadow *shadow, unsigned stage)
{
    const struct plan *plan = shadow->engine->plan;
    int status = 0;

    for (unsigned unit = plan->layout.stage_first_unit[stage];
         !status && unit < plan->layout.stage_first_unit[stage + 1]; unit++)
        if (shadow->gradients[unit]) {
            tensor_channel_used(&shadow->receives[unit]); /* read by the last step's optimizer */
            status =
                tensor_channel_receive(&shadow->receives[unit], unit_tag(shadow->engine, unit));
        }
    return status;
}

int shadow_begin(struct shadow *shadow)
{
    if (!shadow)
        return 0;
    const struct engine *engine = shadow->engine;
    int status = complete_sends(shadow);

    memset(shadow->fed, 0, engine->part.unit_count * sizeof(*shadow->fed));
    for (unsigned stage = 0; !status && stage < engine->plan->layout.stage_count; stage++)
        if (keeps(engine, stage))
            status = receive_stage(shadow, stage);
    return status;
}

static int feed(struct shadow *shadow, unsigned unit)
{
    const struct engine *engine = shadow->engine;
    unsigned index = unit - engine->part.first_unit;

    shadow->fed[index] = true;
    return tensor_channel_send(&shadow->sends[index], unit_tag(engine, unit));
}

/* A sum over the lanes is final after backward with one replica, and without the other end of a
 * tied table. */
static bool final_after_backward(const struct engine *engine, unsigned unit)
{
    bool tied = state_tied(engine->state) && (unit == 0 || unit == engine->state->unit_count - 1);

    return engine->plan->layout.replica_count == 1 && !tied;
}

int shadow_unit_passed(struct shadow *shadow, unsigned unit)
{
    if (!shadow || shadow->keeper < 0 || !final_after_backward(shadow->engine, unit))
        return 0;
    return feed(shadow, unit);
}

int shadow_reduced(struct shadow *shadow)
{
    int status = 0;

    if (!shadow || shadow->keeper < 0)
        return 0;
    const struct engine *engine = shadow->engine;
    for (unsigned i = engine->part.unit_count; !status && i-- > 0;)
        if (engine->part.first_unit + i >= engine->part.trained_from && !shadow->fed[i])
            status = feed(shadow, engine->part.first_unit + i);
    return status;
}

int shadow_await(struct shadow *shadow)
{
    int status = 0;

    if (!shadow)
        return 0;
    for (unsigned unit = 0; unit < shadow->engine->state->unit_count; unit++) {
        int one = tensor_channel_land(&shadow->receives[unit]);
        status = status ? status : one;
    }
    return status;
}

float *const *shadow_gradients(const struct shadow *shadow)
{
    return shadow->gradients;
}
