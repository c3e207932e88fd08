/*
 * A slot that would shorten the step is not idle: after all faults, the job takes it within a few
 * steps, however long they are.
 */
#include <stdio.h>

#include "elastic/planner/planner.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/fault/sim_stragglers.h"
#include "sim/node/sim_node.h"
#include "sim/sim_scale.h"

#define IDLE_MAX_NS    (90 * NS_PER_SECOND) /* the leader leaves a suspected node out for 60 s */
#define IDLE_MAX_STEPS 3                    /* the change takes effect at a boundary */
#define GAIN_LEAST     0.06                 /* the leader makes no change for a smaller gain */
#define SLOTS_MAX      (SIM_NODES_MAX * SIM_SLOTS_MAX)

static unsigned list_slots(const struct sim *sim, struct planner_slot slots[SLOTS_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < sim->node_count; i++) {
        const struct sim_firnd *firnd = sim->nodes[i].firnd;
        for (unsigned slot = 0; firnd && slot < firnd->daemon.node.self.slot_count; slot++) {
            if (firnd->daemon.node.self.slots[slot].bad[0] != '\0')
                continue;
            struct planner_slot *added = &slots[count++];
            *added =
                (struct planner_slot){.slot = slot, .speed = 1.0, .memory_bytes = sim->slot_memory};
            snprintf(added->node, sizeof(added->node), "%s", sim->nodes[i].name);
        }
    }
    return count;
}

static const struct plan *committing_plan(const struct sim *sim)
{
    for (unsigned i = 0; i < sim->worker_count; i++) {
        const struct sim_worker *worker = sim->workers[i];
        if (worker->alive && worker->engine && worker->rank == 0 &&
            worker->generation == sim->check->committing_generation)
            return worker->plan;
    }
    return NULL;
}

bool sim_check_is_ordinary(const struct sim *sim)
{
    for (unsigned i = 1; i < sim->node_count; i++)
        if (sim->nodes[i].links != sim->nodes[0].links)
            return false;
    return !sim_cuts_any(sim) && !sim->spec.elastic.shadow &&
           sim->spec.elastic.evict_stragglers.factor == 0 && sim->faults->wish == RECORD_RUNNING;
}

static void free_plan(struct plan **plan)
{
    plan_free(*plan);
}

static bool stands_idle(const struct sim *sim)
{
    struct planner_slot slots[SLOTS_MAX];
    struct planner_unit units[SIM_UNITS];
    struct planner_input input;
    CLEANUP(free_plan) struct plan *best = plan_new();
    const struct plan *plan = committing_plan(sim);
    double now_seconds;
    if (!plan || !sim_check_is_ordinary(sim))
        return false;
    unsigned count = list_slots(sim, slots);
    planner_job(&sim->spec, sim_frozen_layers(sim, sim->check->committed_step), slots, count, units,
                &input);
    input.devices_max = sim->faults->devices ? sim->faults->devices : sim->spec.elastic.devices_max;
    input.stages_wanted = sim->stages;
    if (planner_run(&input, &best->layout, NULL, NULL, NULL) ||
        planner_predict(&input, &plan->layout, &now_seconds))
        return false;
    return best->layout.predicted_step_seconds < (1 - GAIN_LEAST) * now_seconds;
}

void sim_check_idle(struct sim *sim)
{
    struct sim_idle *idle = &sim->check->idle;
    const struct sim_check *check = sim->check;
    if (idle->generation != check->committing_generation || !stands_idle(sim)) {
        *idle = (struct sim_idle){.generation = check->committing_generation,
                                  .since_ns = sim->now_ns,
                                  .commits = check->commits};
        return;
    }
    if (sim->now_ns > idle->since_ns + IDLE_MAX_NS + 2 * sim_scale_start_max_ns(sim) &&
        check->commits > idle->commits + IDLE_MAX_STEPS)
        sim_fail(
            sim,
            "slots that would shorten the step have stood idle for %.0f s and %llu steps, with "
            "all faults over",
            (double)(sim->now_ns - idle->since_ns) / 1e9,
            (unsigned long long)(check->commits - idle->commits));
}
