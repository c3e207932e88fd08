#include "worker/shadow.h"

#include <errno.h>
#include <string.h>

#include "worker/tags.h"

struct shadow {
    const struct engine *engine;
    int keeper; /* who shadows this worker's stage, if this worker feeds it; or -1 */
    struct mesh_request **sends;    /* a unit of this stage; NULL: not under way */
    bool *fed;                      /* a unit of this stage: sent in this step */
    float **gradients;              /* a unit of the model; NULL: no copy, or frozen */
    struct mesh_request **receives; /* a unit of the model */
};

static bool keeps(const struct engine *engine, unsigned stage)
{
    return plan_shadow_of(engine->plan, stage) == (int)engine->rank;
}

static size_t unit_bytes(const struct engine *engine, unsigned unit)
{
    return engine->state->units[unit].layout.count * sizeof(float);
}

static uint64_t unit_tag(const struct engine *engine, unsigned unit)
{
    return tag_make(TAG_SHADOW, engine->state->hold.step, unit);
}

static int allocate_gradients(struct shadow *shadow, unsigned stage)
{
    const struct engine *engine = shadow->engine;
    const struct state *state = engine->state;
    unsigned first = MAX(engine->plan->stage_first_unit[stage], engine->trained_from);

    for (unsigned unit = first; unit < engine->plan->stage_first_unit[stage + 1]; unit++) {
        void *memory;
        if (state->kernel->allocate(state->device, unit_bytes(engine, unit), &memory))
            return -ENOMEM;
        shadow->gradients[unit] = memory;
    }
    return 0;
}

static int allocate(struct shadow *shadow)
{
    const struct engine *engine = shadow->engine;
    unsigned model_units = engine->state->unit_count;
    int status = 0;

    shadow->sends = calloc(engine->unit_count, sizeof(*shadow->sends));
    shadow->fed = calloc(engine->unit_count, sizeof(*shadow->fed));
    shadow->gradients = calloc(model_units, sizeof(*shadow->gradients));
    shadow->receives = calloc(model_units, sizeof(*shadow->receives));
    if (!shadow->sends || !shadow->fed || !shadow->gradients || !shadow->receives)
        return -ENOMEM;
    for (unsigned stage = 0; !status && stage < engine->plan->stage_count; stage++)
        if (keeps(engine, stage))
            status = allocate_gradients(shadow, stage);
    return status;
}

int shadow_new(const struct engine *engine, struct shadow **ret_shadow)
{
    int keeper = engine->replica == 0 ? plan_shadow_of(engine->plan, engine->stage_index) : -1;
    bool needed = keeper >= 0;
    struct shadow *shadow;

    for (unsigned stage = 0; stage < engine->plan->stage_count; stage++)
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

static int complete(struct mesh_request **request)
{
    int status = *request ? mesh_wait(*request, UINT64_MAX) : 0;

    *request = NULL;
    return status;
}

static int complete_all(struct mesh_request **requests, unsigned count)
{
    int status = 0;

    for (unsigned i = 0; requests && i < count; i++) {
        int one = complete(&requests[i]);
        status = status ? status : one;
    }
    return status;
}

static bool any(struct mesh_request *const *requests, unsigned count)
{
    for (unsigned i = 0; requests && i < count; i++)
        if (requests[i])
            return true;
    return false;
}

/* No request may outlive its buffer. A receive that is still under way belongs to a step that has
 * failed: nobody may wait for gradients that will not come. */
static void abandon(struct shadow *shadow)
{
    const struct engine *engine = shadow->engine;

    if (any(shadow->receives, engine->state->unit_count))
        mesh_abort(engine->mesh, "a step was given up");
    if (complete_all(shadow->receives, engine->state->unit_count) ||
        complete_all(shadow->sends, engine->unit_count))
        return; /* the mesh has failed: the requests are gone, which is all that is wanted */
}

void shadow_free(struct shadow *shadow)
{
    if (!shadow)
        return;
    const struct state *state = shadow->engine->state;

    abandon(shadow);
    for (unsigned unit = 0; shadow->gradients && unit < state->unit_count; unit++)
        state->kernel->release(state->device, shadow->gradients[unit]);
    free(shadow->sends);
    free(shadow->fed);
    free(shadow->gradients);
    free(shadow->receives);
    free(shadow);
}

static int receive_stage(struct shadow *shadow, unsigned stage)
{
    const struct plan *plan = shadow->engine->plan;
    unsigned feeder = plan_rank(plan, 0, stage);
    int status = 0;

    for (unsigned unit = plan->stage_first_unit[stage];
         !status && unit < plan->stage_first_unit[stage + 1]; unit++)
        if (shadow->gradients[unit])
            status = mesh_receive(shadow->engine->mesh, feeder, unit_tag(shadow->engine, unit),
                                  shadow->gradients[unit], unit_bytes(shadow->engine, unit),
                                  &shadow->receives[unit]);
    return status;
}

int shadow_begin(struct shadow *shadow)
{
    if (!shadow)
        return 0;
    const struct engine *engine = shadow->engine;
    int status = complete_all(shadow->sends, engine->unit_count);

    memset(shadow->fed, 0, engine->unit_count * sizeof(*shadow->fed));
    for (unsigned stage = 0; !status && stage < engine->plan->stage_count; stage++)
        if (keeps(engine, stage))
            status = receive_stage(shadow, stage);
    return status;
}

static int feed(struct shadow *shadow, unsigned unit)
{
    const struct engine *engine = shadow->engine;
    unsigned index = unit - engine->first_unit;

    shadow->fed[index] = true;
    return mesh_send(engine->mesh, (unsigned)shadow->keeper, unit_tag(engine, unit),
                     gradients_reduced(engine->gradients)[index], unit_bytes(engine, unit),
                     &shadow->sends[index]);
}

/* One replica's sum over its lanes is the sum, unless the other end of a tied table adds to it. */
static bool final_after_backward(const struct engine *engine, unsigned unit)
{
    bool tied = state_tied(engine->state) && (unit == 0 || unit == engine->state->unit_count - 1);

    return engine->plan->replica_count == 1 && !tied;
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
    for (unsigned i = engine->unit_count; !status && i-- > 0;)
        if (engine->first_unit + i >= engine->trained_from && !shadow->fed[i])
            status = feed(shadow, engine->first_unit + i);
    return status;
}

int shadow_await(struct shadow *shadow)
{
    return shadow ? complete_all(shadow->receives, shadow->engine->state->unit_count) : 0;
}

float *const *shadow_gradients(const struct shadow *shadow)
{
    return shadow->gradients;
}
