/*
 * A planned change must not wait long for a node whose firnd is gone.
 */
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"

/*
 * Sum the lease of a node, the leader's patience, the change itself (also where it begins as a
 * failure because rank 0 is away), and the messages in flight at the time of the check.
 */
#define HELD_UP_MAX_NS (15 * NS_PER_SECOND)
#define ON_ITS_WAY_NS  (3 * NS_PER_SECOND)

static bool is_away(const struct sim_fault *fault, unsigned node)
{
    return node == fault->node || (sim_fault_takes_two(fault) && node == fault->other);
}

/* Return whether no other fault has happened during that time, and no node that the change needs is
 * cut off. */
static bool is_alone(const struct sim *sim, const struct sim_fault *fault)
{
    const struct sim_faults *faults = sim->faults;
    return fault->struck_ns != 0 && fault->struck_ns + HELD_UP_MAX_NS < sim->now_ns &&
           faults->disturbing == 1 && faults->disturbed_ns <= fault->struck_ns &&
           !sim_cuts_off(sim) && faults->store_disturbed_ns <= fault->struck_ns &&
           !sim->store->down && sim->store->lost_answers_percent == 0;
}

/* Return whether the current generation can continue without the absent nodes: each unit is on
 * another node, too. */
static bool can_do_without(const struct sim *sim, const struct sim_fault *fault)
{
    bool kept[SIM_UNITS] = {false};
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        if (!worker->alive || !worker->engine || is_away(fault, worker->node) ||
            worker->generation != sim->check->committing_generation)
            continue;
        for (unsigned unit = 0; unit < SIM_UNITS; unit++)
            kept[unit] |= worker->keeps[unit];
    }
    for (unsigned unit = 0; unit < SIM_UNITS; unit++)
        if (!kept[unit])
            return false;
    return true;
}

void sim_check_held_up(struct sim *sim, const struct sim_fault *fault)
{
    const struct sim_check *check = sim->check;
    bool any_layout = sim->stages == 0 && sim->slot_memory == 0;
    if (!is_alone(sim, fault) || !any_layout || !can_do_without(sim, fault) ||
        check->newest.generation == check->committing_generation ||
        check->newest.at_ns + ON_ITS_WAY_NS + sim_scale_beyond_ns(sim) > sim->now_ns ||
        check->committed_step == sim->spec.train.steps)
        return;
    sim_fail(sim, "generation %llu has waited for %.0f s for node %s, whose firnd is gone",
             (unsigned long long)check->newest.generation,
             (double)(sim->now_ns - check->newest.at_ns) / 1e9, sim_node_name(sim, fault->node));
}
