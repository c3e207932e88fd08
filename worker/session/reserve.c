#include "worker/session/reserve.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/step/memory.h"

static bool holds_state(const struct state *state)
{
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        if (state->units[unit].held)
            return true;
    return false;
}

static void let_go(struct state *state, const struct plan_layout *layout, unsigned rank)
{
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        if (state->units[unit].reserved && !plan_layout_keeps(layout, rank, unit))
            state_drop_unit(state, unit);
}

static int take(struct state *state, const struct plan_layout *layout, unsigned rank,
                size_t arena_bytes, struct error *error)
{
    unsigned frozen = model_frozen_units(&state->model, layout->frozen_layers);
    int status = 0;

    for (unsigned unit = 0; !status && unit < state->unit_count; unit++)
        if (plan_layout_keeps(layout, rank, unit))
            status = state_reserve_unit(state, unit, unit >= frozen, error);
    return status ? status : arena_reserve(state->arena, arena_bytes, error);
}

void reserve_memory(struct trainer *trainer, const struct plan *plan)
{
    struct state *state = trainer->state;
    int rank = plan_layout_find(&plan->layout, trainer->options->node, trainer->options->slot);
    struct error error = {0};

    if (rank < 0 || (unsigned)rank >= plan->layout.worker_count || holds_state(state))
        return;
    uint64_t began_ns = clock_monotonic_ns();
    let_go(state, &plan->layout, (unsigned)rank);
    bool sums_on_device =
        trainer->device.kernel->host_memory || nccl_use_is_offered(&trainer->device.nccl);
    const struct memory_need need =
        memory_need(state, &plan->layout, (unsigned)rank, sums_on_device);
    size_t arena_bytes = memory_arena_bytes(&need);
    int status = memory_check(state, &need, &error);

    if (!status)
        memory_make_room(state, &need);
    if (!status)
        status = take(state, &plan->layout, (unsigned)rank, arena_bytes, &error);
    if (status) {
        log_warning("memory for generation %llu is not reserved: %s",
                    (unsigned long long)plan->generation, error.text);
        state_drop_all(state);
        arena_drop(state->arena);
        return;
    }
    log_info("%zu MiB are reserved for generation %llu in %.2f s",
             (need.state_bytes + arena_bytes) >> 20, (unsigned long long)plan->generation,
             (double)(clock_monotonic_ns() - began_ns) / 1e9);
}
