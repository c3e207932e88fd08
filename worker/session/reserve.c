#include "worker/session/reserve.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/session/trainer.h"
#include "worker/step/memory.h"

#define EXTENSION_BYTES ((size_t)64 << 20) /* of the arena at a time */

static bool holds_state(const struct state *state)
{
    for (unsigned unit = 0; unit < state->unit_count; unit++)
        if (state->units[unit].held)
            return true;
    return false;
}

void reserve_let_go(struct trainer *trainer, const struct plan_layout *layout, unsigned rank)
{
    struct state *state = trainer->state;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        if (state->units[unit].reserved && !plan_layout_keeps(layout, rank, unit))
            state_drop_unit(state, unit);
}

static struct memory_need need_of(const struct trainer *trainer, const struct plan_layout *layout,
                                  unsigned rank)
{
    bool sums_on_device =
        trainer->device.kernel->host_memory || nccl_use_is_offered(&trainer->device.nccl);

    return memory_need(trainer->state, layout, rank, sums_on_device);
}

/* Return this worker's rank in @plan; -1: it does not compute there. */
static int computing_rank(const struct trainer *trainer, const struct plan *plan)
{
    int rank = plan_layout_find(&plan->layout, trainer->options->node, trainer->options->slot);

    return rank >= 0 && (unsigned)rank < plan->layout.worker_count ? rank : -1;
}

static void tell(size_t size_bytes, uint64_t generation, uint64_t began_ns, const char *when)
{
    log_info("%zu MiB are reserved for generation %" PRIu64 "%s in %.2f s", size_bytes >> 20,
             generation, when, (double)(clock_monotonic_ns() - began_ns) / 1e9);
}

/* ---- a fresh worker ---- */

static int take(struct state *state, const struct plan_layout *layout, unsigned rank,
                size_t arena_bytes, struct error *error)
{
    unsigned settled = memory_settled_units(state, layout);
    int status = 0;

    for (unsigned unit = 0; !status && unit < state->unit_count; unit++)
        if (plan_layout_keeps(layout, rank, unit))
            status = state_reserve_unit(state, state->device, unit, unit >= settled, error);
    return status ? status : arena_reserve(state->arena, arena_bytes, error);
}

void reserve_memory(struct trainer *trainer, const struct plan *plan)
{
    struct state *state = trainer->state;
    int rank = computing_rank(trainer, plan);
    struct error error = {0};

    if (rank < 0 || holds_state(state))
        return;
    uint64_t began_ns = clock_monotonic_ns();
    reserve_let_go(trainer, &plan->layout, (unsigned)rank);
    const struct memory_need need = need_of(trainer, &plan->layout, (unsigned)rank);
    size_t arena_bytes = memory_arena_bytes(&need);
    int status = memory_check(state, &need, &error);

    if (!status)
        memory_make_room(state, &need);
    if (!status)
        status = take(state, &plan->layout, (unsigned)rank, arena_bytes, &error);
    if (status) {
        log_warning("memory for generation %" PRIu64 " is not reserved: %s", plan->generation,
                    error.text);
        state_drop_all(state);
        arena_drop(state->arena);
        return;
    }
    tell(need.state_bytes + arena_bytes, plan->generation, began_ns, "");
}

/* ---- a worker that trains ---- */

static bool is_cancelled(const struct reserve *reserve)
{
    return __atomic_load_n(&reserve->cancelled, __ATOMIC_ACQUIRE);
}

static int take_units(const struct reserve *reserve, struct state *state,
                      struct kernel_device *device, struct error *error)
{
    int status = 0;

    for (unsigned unit = 0; !status && unit < state->unit_count && !is_cancelled(reserve); unit++)
        if (reserve->units[unit])
            status = state_reserve_unit(state, device, unit, reserve->trained[unit], error);
    return status;
}

static int extend_arena(const struct reserve *reserve, struct arena *arena,
                        struct kernel_device *device, struct error *error)
{
    size_t size_bytes = arena_held_bytes(arena);
    int status = 0;

    while (!status && size_bytes < reserve->arena_bytes && !is_cancelled(reserve)) {
        size_bytes += MIN(EXTENSION_BYTES, reserve->arena_bytes - size_bytes);
        status = arena_extend(arena, device, size_bytes, error);
    }
    return status;
}

/* Meanwhile the main thread computes with the kernel's device. */
static void *take_ahead(void *context)
{
    struct trainer *trainer = context;
    struct reserve *reserve = &trainer->reserve;
    const struct kernel *kernel = trainer->device.kernel;
    const struct kernel_options options = {.thread_count = 1};
    struct kernel_device *device = NULL;
    struct error error = {0};
    uint64_t began_ns = clock_monotonic_ns();
    int status = kernel->open(&options, &device, &error);

    if (!status)
        status = take_units(reserve, trainer->state, device, &error);
    if (!status)
        status = extend_arena(reserve, trainer->state->arena, device, &error);
    if (status)
        log_warning("memory for generation %" PRIu64 " is not reserved: %s", reserve->generation,
                    error.text);
    else if (!is_cancelled(reserve))
        tell(reserve->size_bytes, reserve->generation, began_ns, " while this one trains");
    if (device)
        kernel->close(device);
    __atomic_store_n(&reserve->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static bool list_units(struct reserve *reserve, const struct state *state,
                       const struct plan_layout *layout, unsigned rank)
{
    unsigned settled = memory_settled_units(state, layout);

    reserve->units = calloc(state->unit_count, sizeof(*reserve->units));
    reserve->trained = calloc(state->unit_count, sizeof(*reserve->trained));
    if (!reserve->units || !reserve->trained)
        return false;
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        reserve->units[unit] = plan_layout_keeps(layout, rank, unit) && !state->units[unit].held;
        reserve->trained[unit] = unit >= settled;
    }
    return true;
}

/* Begin to take the memory that @plan needs here beyond the memory held. */
static void begin(struct trainer *trainer, const struct plan *plan)
{
    struct reserve *reserve = &trainer->reserve;
    const struct state *state = trainer->state;
    int rank = computing_rank(trainer, plan);

    reserve_end(trainer);
    reserve->generation = plan->generation;
    reserve->done = true;
    if (rank < 0 || !state->kernel->host_memory)
        return;
    const struct memory_need need = need_of(trainer, &plan->layout, (unsigned)rank);
    size_t held_bytes = arena_held_bytes(state->arena);
    struct error short_of = {0};
    reserve->arena_bytes = memory_arena_bytes(&need);
    reserve->size_bytes =
        need.state_bytes + reserve->arena_bytes - MIN(reserve->arena_bytes, held_bytes);
    if (!reserve->size_bytes || memory_check(state, &need, &short_of) ||
        !list_units(reserve, state, &plan->layout, (unsigned)rank))
        return;
    reserve->done = reserve->cancelled = false;
    reserve->running = !pthread_create(&reserve->thread, NULL, take_ahead, trainer);
    if (!reserve->running)
        reserve->done = true;
}

bool reserve_is_ready(struct trainer *trainer, const struct plan *plan)
{
    if (trainer->reserve.generation != plan->generation)
        begin(trainer, plan);
    return __atomic_load_n(&trainer->reserve.done, __ATOMIC_ACQUIRE);
}

void reserve_end(struct trainer *trainer)
{
    struct reserve *reserve = &trainer->reserve;

    __atomic_store_n(&reserve->cancelled, true, __ATOMIC_RELEASE);
    if (reserve->running)
        pthread_join(reserve->thread, NULL);
    free(reserve->units);
    free(reserve->trained);
    *reserve = (struct reserve){0};
}
