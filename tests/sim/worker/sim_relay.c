/*
 * A lane that two replicas share: worker/step/lane_relay.c. The sums of a simulated stage are
 * passed together, and arrive after a drawn time.
 */
#include <errno.h>

#include "sim/check/sim_check.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_worker.h"

static uint64_t next_step(const struct sim_worker *worker)
{
    return worker->state.applied_step + 1;
}

/* Find the heads of this replica's step: micro-batches that it passes on, and those that it gets.
 */
static void find_heads(struct sim_worker *worker, struct sim_relay *relay)
{
    const struct plan_layout *layout = &worker->plan->layout;
    unsigned replica = worker->rank / layout->stage_count;
    struct step_division division;
    sim_division_find(worker, &division);
    for (unsigned lane = 0; lane < SIM_LANES; lane++) {
        unsigned head = division.heads[lane], stage = worker->rank % layout->stage_count;
        unsigned start = division.starts[lane];
        if (head && division.owners[lane] == replica) {
            relay->gets = head;
            relay->lane = lane;
            relay->from_rank = plan_layout_rank(layout, division.givers[lane], stage);
        } else if (head && division.givers[lane] == replica) {
            relay->gives = head - start;
            relay->to_rank = plan_layout_rank(layout, division.owners[lane], stage);
        }
    }
}

/* The message leaves when it would have arrived: a worker that dies before has passed nothing on.
 */
static void pass(void *context)
{
    struct sim_worker *worker = context;
    struct sim_relay *relay = &worker->share.relay;
    const struct sim_payload payload = {.step = relay->step};
    if (!worker->alive || !worker->mesh || worker->mesh->state != SIM_MESH_OPEN ||
        relay->step != next_step(worker) || relay->generation != worker->generation ||
        !relay->gives || relay->passed || relay->pass_ns > worker->sim->now_ns)
        return;
    relay->passed = true;
    sim_mesh_send(worker->mesh, relay->to_rank, SIM_HEAD, 0, &payload);
}

void sim_relay_begin(struct sim_worker *worker)
{
    struct sim *sim = worker->sim;
    struct sim_share *share = &worker->share;
    struct sim_relay relay = {.step = next_step(worker), .generation = worker->generation};
    uint64_t whole_ns = share->until_ns - share->from_ns;
    find_heads(worker, &relay);
    unsigned left = sim_division_left(worker);
    if (relay.gives) {
        uint64_t computed_ns = share->from_ns + whole_ns * relay.gives / left;
        relay.pass_ns =
            MAX(computed_ns, share->sums.arrive_ns) +
            sim_scale_sums_ns(sim, worker->instance, sim_mix(worker->generation, relay.step));
        sim_post(sim, relay.pass_ns, &worker->pause, pass, worker);
    }
    if (relay.gets) {
        unsigned rest = sim->spec.train.micro_batches_per_lane - relay.gets;
        relay.rest_ns = whole_ns * rest / left;
        if (sim->bug != BUG_LONE_REST)
            worker->busy_until_ns -= relay.rest_ns;
    }
    share->relay = relay;
}

unsigned sim_relay_rest(const struct sim_worker *worker)
{
    const struct sim_relay *relay = &worker->share.relay;
    bool waits = relay->gets && !relay->begun && worker->sim->bug != BUG_LONE_REST;
    return waits ? worker->sim->spec.train.micro_batches_per_lane - relay->gets : 0;
}

bool sim_relay_has_head(const struct sim_worker *worker, unsigned lane)
{
    const struct sim_relay *relay = &worker->share.relay;
    if (!relay->gets || relay->lane != lane || relay->step != next_step(worker) ||
        relay->generation != worker->generation)
        return false;
    return relay->begun || sim_mesh_has(worker->mesh, relay->from_rank, SIM_HEAD, relay->step);
}

int sim_relay_run(struct sim_worker *worker)
{
    struct sim_share *share = &worker->share;
    struct sim_relay *relay = &share->relay;
    struct sim_payload payload;
    if (!sim_relay_rest(worker))
        return 0;
    if (!sim_mesh_take(worker->mesh, relay->from_rank, SIM_HEAD, relay->step, 0, &payload))
        return worker->mesh->state == SIM_MESH_FAILED ? -ECONNRESET : -EAGAIN;
    uint64_t whole_ns = share->until_ns - share->from_ns;
    relay->begun = true;
    share->until_ns = worker->busy_until_ns = worker->sim->now_ns + relay->rest_ns;
    share->from_ns = share->until_ns - MIN(whole_ns, share->until_ns);
    sim_division_watch(worker);
    return relay->rest_ns > 0 ? -EAGAIN : 0;
}

void sim_relay_check(const struct sim_worker *worker)
{
    const struct sim_relay *relay = &worker->share.relay;
    const struct sim *sim = worker->sim;
    if (!relay->gets)
        return;
    const struct plan_worker *at = &worker->plan->layout.workers[relay->from_rank];
    const struct sim_worker *giver = sim_worker_at(sim, sim_node_index(sim, at->node), at->slot);
    if (giver && giver->generation == worker->generation &&
        giver->share.relay.step == relay->step && !giver->share.relay.passed)
        sim_fail(worker->sim, "%s goes on with a sum of lane %u that nobody has passed on",
                 worker->name, relay->lane);
}
