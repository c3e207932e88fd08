/*
 * A settled leader publishes no more plans: after all faults, the layout stays as long as nothing
 * changes that it depends on. A leader that alternates between two layouts stops every worker at
 * each change, and no lost step would show it.
 */
#include <string.h>

#include "elastic/plan/plan.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"

#define SETTLED_NS    (90 * NS_PER_SECOND) /* the leader leaves a suspected node out for 60 s */
#define SETTLED_STEPS 3                    /* a change takes effect at a boundary */
#define CHANGES_MAX   3 /* before that: omitted slots come back one after the other */

/* Return a number that changes with everything that a layout depends on. */
static uint64_t digest_of_causes(const struct sim *sim)
{
    uint64_t digest = sim_mix(sim->faults->wish, sim->faults->devices);
    digest = sim_mix(digest, sim_frozen_layers(sim, sim->check->committed_step));
    for (unsigned i = 0; i < sim->node_count; i++) {
        const struct sim_firnd *firnd = sim->nodes[i].firnd;
        digest = sim_mix(digest, firnd ? firnd->daemon.node.self.incarnation : 0);
        digest = sim_mix(digest, firnd && firnd->daemon.node.self.draining);
        for (unsigned slot = 0; firnd && slot < firnd->daemon.node.self.slot_count; slot++)
            digest = sim_mix(digest, firnd->daemon.node.self.slots[slot].bad[0] != '\0');
    }
    return digest;
}

static void begin_anew(struct sim *sim, uint64_t causes)
{
    sim->check->settled = (struct sim_settled){
        .causes = causes, .since_ns = sim->now_ns, .commits = sim->check->commits};
}

void sim_check_causes(struct sim *sim)
{
    uint64_t causes = digest_of_causes(sim);
    if (causes != sim->check->settled.causes)
        begin_anew(sim, causes);
}

static bool has_settled(const struct sim *sim)
{
    const struct sim_settled *settled = &sim->check->settled;
    return sim->now_ns > settled->since_ns + SETTLED_NS + 2 * sim_scale_start_max_ns(sim) &&
           sim->check->commits > settled->commits + SETTLED_STEPS;
}

void sim_check_settled(struct sim *sim, const struct plan *plan)
{
    struct sim_settled *settled = &sim->check->settled;
    if (sim->now_ns <= sim->faults->over_ns || !sim_check_is_ordinary(sim) ||
        !plan->change.planned || plan->layout.worker_count == 0) {
        begin_anew(sim, digest_of_causes(sim));
        return;
    }
    sim_check_causes(sim);
    settled->changes++;
    if (settled->changes > CHANGES_MAX || has_settled(sim))
        sim_fail(
            sim,
            "generation %llu changes the layout again, the change number %u in %.0f s in which "
            "nothing else has changed: %s",
            (unsigned long long)plan->generation, settled->changes,
            (double)(sim->now_ns - settled->since_ns) / 1e9, plan->change.text);
}
