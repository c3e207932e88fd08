/*
 * The units that workers hand over: worker/state/handover.c, and the waits of its callers, around
 * the real protocol/unit_arrivals.h. A unit arrives in two messages; the second may be late.
 */
#include <errno.h>
#include <string.h>

#include "sim/check/sim_check.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_worker.h"

#define LOOK_NS (10 * NS_PER_MS)

static const struct plan_move *move_of(const struct sim_worker *worker, unsigned index)
{
    return &worker->plan->start.moves[index];
}

static void find_kept(const struct sim_worker *worker, bool ret_kept[SIM_UNITS])
{
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        ret_kept[unit] = plan_layout_keeps(&worker->plan->layout, worker->rank, unit);
}

static void send_units(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    for (unsigned m = 0; m < plan->start.move_count; m++) {
        const struct plan_move *move = move_of(worker, m);
        if (move->from_rank != worker->rank)
            continue;
        struct sim_payload payload = {.digest = worker->state.applied_step,
                                      .unit = worker->state.units[move->unit]};
        if (!payload.unit.held) {
            worker_broken(worker, -ENODATA);
            return;
        }
        sim_mesh_send(worker->mesh, move->to_rank, SIM_MOMENTS, move->unit, &payload);
        payload.unit.moments = 0;
        sim_mesh_send(worker->mesh, move->to_rank, SIM_STATE, move->unit, &payload);
    }
    if (worker->sim->bug == BUG_DROP_BEFORE_COMMIT && worker->rank < plan->layout.worker_count) {
        bool kept[SIM_UNITS];
        find_kept(worker, kept);
        sim_state_drop(&worker->state, kept);
    }
}

/* Take the moments that have arrived. */
static void take_moments(struct sim_worker *worker)
{
    struct sim_handover *handover = &worker->handover;
    struct sim_payload payload;
    if (worker->sim->now_ns < handover->moments_ns)
        return;
    for (unsigned m = 0; m < worker->plan->start.move_count; m++) {
        const struct plan_move *move = move_of(worker, m);
        if (move->to_rank != worker->rank ||
            handover->arrivals.units[move->unit] != UNIT_HAS_PARAMETERS ||
            !sim_mesh_take(worker->mesh, move->from_rank, SIM_MOMENTS, 0, move->unit, &payload))
            continue;
        worker->state.units[move->unit].moments = payload.unit.moments;
        unit_arrivals_whole(&handover->arrivals, move->unit);
    }
}

/* Moments arrive while the worker computes or waits. */
static void look_for_moments(void *context)
{
    struct sim_worker *worker = context;
    struct sim *sim = worker->sim;
    if (!worker->alive || !worker->mesh || worker->mesh->state != SIM_MESH_OPEN ||
        unit_arrivals_are_complete(&worker->handover.arrivals))
        return;
    take_moments(worker);
    handover_tell(worker);
    sim_post(sim, MAX(worker->handover.moments_ns, sim->now_ns + LOOK_NS), &worker->pause,
             look_for_moments, worker);
}

void handover_tell(struct sim_worker *worker)
{
    if (worker->phase != WORKER_RUNNING && worker->stay.plan &&
        unit_arrivals_are_complete(&worker->handover.arrivals))
        worker_report(worker, WORKER_RUNNING);
}

/* Two thirds of a unit's state are moments. */
static void expect_units(struct sim_worker *worker)
{
    const struct sim *sim = worker->sim;
    uint64_t parameters_ns = sim->costs.unit_ns / 3;
    bool held[SIM_UNITS];
    sim_state_list_held(&worker->state, held);
    unit_arrivals_begin(&worker->handover.arrivals, worker->plan, worker->rank, held);
    worker->busy_until_ns = MAX(worker->busy_until_ns, sim->now_ns) +
                            worker->handover.arrivals.incomplete * parameters_ns;
    worker->handover.moments_ns =
        worker->busy_until_ns +
        worker->handover.arrivals.incomplete * (sim->costs.unit_ns - parameters_ns) +
        sim_scale_moments_ns(sim, worker->instance, worker->plan->generation);
    if (!unit_arrivals_are_complete(&worker->handover.arrivals))
        sim_post(worker->sim, worker->handover.moments_ns, &worker->pause, look_for_moments,
                 worker);
}

bool handover_at_links(struct sim_worker *worker)
{
    struct sim_mesh *mesh = worker->mesh;
    if (mesh->state == SIM_MESH_OPENING)
        return false;
    if (mesh->state == SIM_MESH_FAILED) {
        int result = mesh->result;
        if (result == -ETIMEDOUT)
            sim_check_patience(worker);
        sim_mesh_close(mesh);
        worker->mesh = NULL;
        worker_broken(worker, result);
        return worker->alive;
    }
    pending_plan_enter(&worker->pending, 0);
    if (mesh->ends) {
        worker->engine = true;
        session_finish(worker);
        return worker->alive;
    }
    worker->handover.next_move = 0;
    worker_go(worker, POINT_HANDOVER);
    if (worker->plan->start.source == PLAN_SOURCE_MEMORY)
        send_units(worker);
    if (worker->alive)
        expect_units(worker);
    return worker->alive;
}

static bool take_unit(struct sim_worker *worker, unsigned from_rank, unsigned unit)
{
    struct sim_state *state = &worker->state;
    struct sim_payload payload;
    if (!sim_mesh_take(worker->mesh, from_rank, SIM_STATE, 0, unit, &payload))
        return false;
    if (sim_state_empty(state)) {
        state->applied_step = payload.digest;
        state->committed.step = 0;
    }
    if (payload.digest != state->applied_step && worker->sim->bug != BUG_MOVE_OF_OTHER_STEP) {
        worker_broken(worker, -EBADMSG);
        return true;
    }
    worker->handover.next_move++;
    if (unit_arrivals_is_copy(&worker->handover.arrivals, unit))
        return true;
    state->units[unit] = payload.unit;
    unit_arrivals_parameters(&worker->handover.arrivals, unit);
    return true;
}

bool handover_at_units(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    if (worker->mesh->state == SIM_MESH_FAILED) {
        worker_broken(worker, -ECONNRESET);
        return worker->alive;
    }
    while (worker->handover.next_move < plan->start.move_count &&
           move_of(worker, worker->handover.next_move)->to_rank != worker->rank)
        worker->handover.next_move++;
    if (worker->handover.next_move < plan->start.move_count) {
        const struct plan_move *move = move_of(worker, worker->handover.next_move);
        return take_unit(worker, move->from_rank, move->unit);
    }
    worker->handover.next_move = 0;
    if (worker->rank >= plan->layout.worker_count) {
        sim_sums_begin(worker);
        worker_go(worker, POINT_DONOR);
        return true;
    }
    unsigned stage = worker->rank % plan->layout.stage_count;
    worker->first_unit = plan->layout.stage_first_unit[stage];
    worker->unit_count = plan->layout.stage_first_unit[stage + 1] - worker->first_unit;
    find_kept(worker, worker->keeps);
    worker->engine = worker->first_commit = true;
    sim_check_begin(worker->sim, worker);
    sim_division_begin(worker);
    return true;
}

bool handover_at_arrive(struct sim_worker *worker)
{
    struct sim_handover *handover = &worker->handover;
    bool hurries = worker->sim->bug == BUG_HOLD_BEFORE_MOMENTS;
    if (!unit_arrivals_are_complete(&handover->arrivals) && !hurries) {
        if (worker->mesh->state == SIM_MESH_FAILED) {
            worker_broken(worker, -ECONNRESET);
            return worker->alive;
        }
        if (worker->sim->now_ns < handover->moments_ns) {
            worker->busy_until_ns = handover->moments_ns;
            return true;
        }
        take_moments(worker);
        if (!unit_arrivals_are_complete(&handover->arrivals))
            return false;
    }
    if (!sim_sums_have_arrived(worker) && worker->sim->bug != BUG_HOLD_BEFORE_SUMS) {
        if (worker->mesh->state == SIM_MESH_FAILED)
            worker_broken(worker, -ECONNRESET);
        else
            worker_alarm(worker, worker->share.sums.arrive_ns);
        return false;
    }
    sim_check_sums(worker);
    handover_tell(worker);
    session_arrived(worker);
    return worker->alive;
}

void handover_drop_partial(struct sim_worker *worker)
{
    bool kept[SIM_UNITS];
    if (unit_arrivals_are_complete(&worker->handover.arrivals) ||
        worker->sim->bug == BUG_KEPT_PARTIAL)
        return;
    for (unsigned unit = 0; unit < SIM_UNITS; unit++) {
        kept[unit] = unit_arrivals_is_copy(&worker->handover.arrivals, unit);
    }
    sim_state_drop(&worker->state, kept);
    worker->handover.arrivals = (struct unit_arrivals){0};
}

static bool first_of_pair(const struct plan *plan, unsigned index)
{
    for (unsigned i = 0; i < index; i++)
        if (plan->start.moves[i].from_rank == plan->start.moves[index].from_rank &&
            plan->start.moves[i].to_rank == plan->start.moves[index].to_rank)
            return false;
    return true;
}

/* The links broke: rank 0 leaves the step, and has all it needs, or the generation has failed. */
static bool part(struct sim_worker *worker)
{
    if (worker->mesh->early > worker->generation)
        worker_leave(worker);
    else
        worker_broken(worker, -ECONNRESET);
    return worker->alive;
}

/* Wait until all workers that it serves have reported that they need nothing more. */
bool handover_at_donor(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct sim_payload payload;
    int status = sim_sums_take_wanted(worker);
    if (!status)
        status = sim_sums_await_release(worker);
    if (status)
        return status != -EAGAIN && part(worker);
    for (; worker->handover.next_move < plan->start.move_count; worker->handover.next_move++) {
        const struct plan_move *move = move_of(worker, worker->handover.next_move);
        if (move->from_rank != worker->rank || !first_of_pair(plan, worker->handover.next_move))
            continue;
        if (sim_mesh_take(worker->mesh, move->to_rank, SIM_RELEASE, 0, 0, &payload))
            continue;
        if (worker->mesh->state != SIM_MESH_FAILED)
            return false;
        return part(worker);
    }
    worker_leave(worker);
    return false;
}
