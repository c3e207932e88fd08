#include "worker/step/arriving_units.h"

#include "base/clock.h"
#include "worker/state/handover.h"
#include "worker/step/moved_sums.h"
#include "worker/trace/recorder.h"

static int await_unit(struct engine *engine, unsigned unit)
{
    struct engine_arrivals *arrivals = &engine->arrivals;
    uint64_t began_ns = clock_monotonic_ns();
    int status = handover_await_unit(arrivals->handover, engine->part.first_unit + unit);

    arrivals->waited_ns += clock_monotonic_ns() - began_ns;
    return status;
}

static bool passes(void *context, unsigned unit)
{
    struct engine *engine = context;

    engine->arrivals.status = await_unit(engine, unit);
    return !engine->arrivals.status;
}

int arriving_units_begin(struct engine *engine)
{
    const struct stage_gate gate = {passes, engine};
    int status = 0;

    engine->arrivals.waited_ns = 0;
    if (!engine->arrivals.handover)
        return 0;
    if (!engine->state->kernel->host_memory) /* its queues may wait for messages of this step */
        return arriving_units_finish(engine);
    stage_set_gate(engine->stage, &gate);
    for (unsigned unit = 0; !status && unit < stage_frozen_units(engine->stage); unit++)
        status = await_unit(engine, unit);
    return status;
}

int arriving_units_passed(const struct engine *engine)
{
    return engine->arrivals.status;
}

int arriving_units_finish(struct engine *engine)
{
    struct engine_arrivals *arrivals = &engine->arrivals;
    uint64_t began_ns = clock_monotonic_ns();

    if (!arrivals->handover)
        return 0;
    int status = handover_finish(arrivals->handover);
    arrivals->waited_ns += clock_monotonic_ns() - began_ns;
    recorder_add_kind(engine->timing.recorder, began_ns, TRACE_HANDOVER, engine->state->hold.step);
    if (status)
        return status;
    arrivals->handover = NULL;
    stage_set_gate(engine->stage, NULL);
    return 0;
}

int arriving_units_await_sums(struct engine *engine, unsigned unit)
{
    uint64_t began_ns;

    if (!engine->arrivals.sums)
        return 0;
    began_ns = clock_monotonic_ns();
    int status = moved_sums_await_unit(engine->arrivals.sums, unit);
    engine->arrivals.waited_ns += clock_monotonic_ns() - began_ns;
    return status;
}
