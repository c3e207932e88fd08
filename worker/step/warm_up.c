#include "worker/step/warm_up.h"

#include "worker/step/engine.h"

#define FROZEN_SHIFT 8 /* bits of frozen units begin here */

static unsigned kinds_of(const struct engine *engine)
{
    const struct engine_part *part = &engine->part;
    unsigned frozen = part->first_unit + stage_frozen_units(engine->stage), kinds = 0;

    for (unsigned unit = part->first_unit; unit < part->first_unit + part->unit_count; unit++)
        kinds |=
            1u << (engine->state->units[unit].layout.kind + (unit < frozen ? FROZEN_SHIFT : 0));
    return kinds;
}

static void forward(struct engine *engine, bool keep)
{
    if (stage_frozen_units(engine->stage))
        stage_forward_frozen(engine->stage, 0, 0, 0, engine->weights, engine->samples.tokens);
    stage_forward(engine->stage, 0, engine->weights, engine->samples.tokens,
                  engine->samples.targets, keep, 0.0f);
}

/* Add to the buffers of the first lane, and clear them again. */
static void backward(struct engine *engine)
{
    const struct engine_part *part = &engine->part;
    const struct state *state = engine->state;
    unsigned lowest = MAX(part->first_unit, part->trained_from);

    for (unsigned unit = part->first_unit + part->unit_count; unit-- > lowest;) {
        float *gradient = gradients_buffer(engine->gradients, unit, engine->share.runs[0].lane, 0);
        stage_backward_unit(engine->stage, 0, unit, engine->weights[unit - part->first_unit],
                            gradient, unit > part->trained_from);
        state->kernel->zero(state->device, gradient,
                            state->units[unit].layout.count * sizeof(*gradient));
    }
}

int warm_up_run(struct engine *engine, struct warm_up *warm, struct error *error)
{
    const struct state *state = engine->state;
    bool idle = engine->share.kept || engine->share.run_count == 0;
    unsigned kinds = kinds_of(engine);

    if (!warm || state->kernel->host_memory || idle || (kinds & ~warm->kinds) == 0)
        return 0;
    forward(engine, false);
    if (engine->position.backward) {
        forward(engine, true);
        backward(engine);
    }
    /* The first messages of NCCL may still wait for their peers. */
    carrier_guard(engine->routes->guard);
    int status = state->kernel->synchronize(state->device, error);
    int broken = carrier_unguard(engine->routes->guard);
    if (!status && !broken)
        warm->kinds |= kinds;
    return status ? status : broken;
}
