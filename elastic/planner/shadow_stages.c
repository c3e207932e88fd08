/*
 * Problem: when all replicas of a stage are on one node, the loss of that node destroys the only
 * copy of the state.
 *
 * Design: greedy, the largest copy goes first, to the eligible worker with the least memory used.
 * Copies are few and of similar size, so a search is not worth its time. Only workers of the plan
 * are eligible, because a copy follows by taking the same steps and must report before a step
 * commits.
 *
 * Invariants: a stage and its copy are never on one node; no worker is filled beyond its memory by
 * a copy; every stage without a copy is counted.
 */
#include "elastic/planner/shadow_stages.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/plan/plan.h"
#include "elastic/planner/planned_worker.h"
#include "elastic/planner/planner_time.h"
#include "elastic/planner/process_memory.h"

#define NO_RANK      UINT_MAX
#define SLOWER_WORTH 1.25 /* step time accepted for copies of all stages, over that without */

struct copies {
    const struct planner_input *input;
    const struct plan *plan;
    size_t *copy_bytes; /* per stage: parameters, two moments, and the gradients of a step */
    size_t *used_bytes; /* per worker: its stage and the copies so far */
    unsigned *kept;     /* per worker: copies so far */
    unsigned *rank_of;  /* per stage; NO_RANK: none */
};

/* Return the memory of the worker's slot; 0: not limited. */
static size_t memory_of(const struct copies *copies, unsigned rank)
{
    const struct plan_worker *worker = &copies->plan->layout.workers[rank];
    for (unsigned i = 0; i < copies->input->slot_count; i++) {
        const struct planner_slot *slot = &copies->input->slots[i];
        if (slot->slot == worker->slot && strcmp(slot->node, worker->node) == 0)
            return process_room(slot->memory_bytes, copies->input->process_bytes);
    }
    return 0;
}

static bool same_node(const struct plan_layout *layout, unsigned a, unsigned b)
{
    return strcmp(layout->workers[a].node, layout->workers[b].node) == 0;
}

/* Return whether all replicas of the stage are on one node. */
static bool is_exposed(const struct plan_layout *layout, unsigned stage)
{
    for (unsigned replica = 1; replica < layout->replica_count; replica++)
        if (!same_node(layout, plan_layout_rank(layout, 0, stage),
                       plan_layout_rank(layout, replica, stage)))
            return false;
    return true;
}

static bool can_keep(const struct copies *copies, unsigned rank, unsigned stage)
{
    size_t memory = memory_of(copies, rank);
    return !same_node(&copies->plan->layout, rank,
                      plan_layout_rank(&copies->plan->layout, 0, stage)) &&
           copies->kept[rank] < PLAN_SHADOWS_MAX &&
           (memory == 0 || copies->used_bytes[rank] + copies->copy_bytes[stage] <= memory);
}

static void place_copy(struct copies *copies, unsigned stage)
{
    unsigned chosen = NO_RANK;
    for (unsigned rank = 0; rank < copies->plan->layout.worker_count; rank++)
        if (can_keep(copies, rank, stage) &&
            (chosen == NO_RANK || copies->used_bytes[rank] < copies->used_bytes[chosen]))
            chosen = rank;
    if (chosen == NO_RANK)
        return;
    copies->rank_of[stage] = chosen;
    copies->used_bytes[chosen] += copies->copy_bytes[stage];
    copies->kept[chosen]++;
}

/* Return the largest stage that is not in @done; NO_RANK: none is left. */
static unsigned next_stage(const struct copies *copies, const bool *done)
{
    unsigned next = NO_RANK;
    for (unsigned stage = 0; stage < copies->plan->layout.stage_count; stage++)
        if (!done[stage] &&
            (next == NO_RANK || copies->copy_bytes[stage] > copies->copy_bytes[next]))
            next = stage;
    return next;
}

static void measure(struct copies *copies)
{
    const struct plan *plan = copies->plan;
    for (unsigned stage = 0; stage < plan->layout.stage_count; stage++) {
        copies->copy_bytes[stage] = planned_copy_bytes(copies->input->units, &plan->layout, stage);
        copies->rank_of[stage] = NO_RANK;
    }
    unsigned sums = sums_room(copies->input->lanes, plan->layout.replica_count,
                              plan->layout.replica_first_lane);
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        unsigned stage = rank % plan->layout.stage_count, replica = rank / plan->layout.stage_count;
        copies->used_bytes[rank] = layout_stage_bytes(
            copies->input->units, plan->layout.stage_first_unit, plan->layout.stage_count, stage,
            gradient_room(layout_buffers(&plan->layout, replica), sums), plan->layout.recompute,
            plan->layout.deferred);
    }
}

static int write_shadows(const struct copies *copies, struct plan_layout *layout)
{
    struct plan_shadow *shadows = calloc(layout->stage_count, sizeof(*shadows));
    if (!shadows)
        return -ENOMEM;
    unsigned count = 0;
    for (unsigned stage = 0; stage < layout->stage_count; stage++)
        if (copies->rank_of[stage] != NO_RANK)
            shadows[count++] = (struct plan_shadow){stage, copies->rank_of[stage]};
    free(layout->shadows);
    layout->shadows = shadows;
    layout->shadow_count = count;
    return 0;
}

int shadow_stages_assign(const struct planner_input *input, struct plan *plan)
{
    AUTO_FREE size_t *bytes =
        calloc((size_t)plan->layout.stage_count + plan->layout.worker_count, sizeof(size_t));
    AUTO_FREE unsigned *numbers =
        calloc((size_t)plan->layout.stage_count + plan->layout.worker_count, sizeof(unsigned));
    AUTO_FREE bool *done = calloc(plan->layout.stage_count, sizeof(bool));
    if (!bytes || !numbers || !done)
        return -ENOMEM;
    struct copies copies = {.input = input,
                            .plan = plan,
                            .copy_bytes = bytes,
                            .used_bytes = bytes + plan->layout.stage_count,
                            .rank_of = numbers,
                            .kept = numbers + plan->layout.stage_count};
    unsigned stage;
    measure(&copies);
    for (stage = 0; stage < plan->layout.stage_count; stage++)
        done[stage] = !is_exposed(&plan->layout, stage);
    while ((stage = next_stage(&copies, done)) != NO_RANK) {
        done[stage] = true;
        place_copy(&copies, stage);
    }
    return write_shadows(&copies, &plan->layout);
}

unsigned shadow_stages_bare_stages(const struct plan_layout *layout)
{
    unsigned bare = 0;
    for (unsigned stage = 0; stage < layout->stage_count; stage++)
        bare += is_exposed(layout, stage) && plan_layout_shadow_of(layout, stage) < 0;
    return bare;
}

/* Assign with at most @deferred weight gradients. 0, -ENOMEM */
static int assign_deferring(const struct planner_input *input, struct plan *plan, unsigned deferred,
                            unsigned *ret_bare)
{
    plan->layout.deferred = deferred;
    int status = shadow_stages_assign(input, plan);
    *ret_bare = status < 0 ? 0 : shadow_stages_bare_stages(&plan->layout);
    return status;
}

/* Assign. If deferred weight gradients take the room of a copy, defer fewer: as many as leave room
 * for the most copies. A copy saves a rollback, deferring a part of the bubble. */
static int assign_first(const struct planner_input *input, struct plan *plan)
{
    unsigned most = plan->layout.deferred, least = 0, bare, fewest, now;
    int status = assign_deferring(input, plan, most, &bare);
    if (status < 0 || bare == 0 || most == 0)
        return status;
    status = assign_deferring(input, plan, 0, &fewest);
    if (status == 0 && fewest == bare)
        return assign_deferring(input, plan, most, &bare);
    while (status == 0 && least + 1 < most) {
        unsigned middle = least + (most - least) / 2;
        status = assign_deferring(input, plan, middle, &now);
        *(now == fewest ? &least : &most) = middle;
    }
    if (status == 0)
        status = assign_deferring(input, plan, least, &now);
    return status < 0 ? status
                      : planner_predict(input, &plan->layout, &plan->layout.predicted_step_seconds);
}

/* Copy the slots of @input in order, at most @cap of each node, and return their count. */
static unsigned cap_nodes(const struct planner_input *input, unsigned cap,
                          struct planner_slot *ret_slots)
{
    unsigned count = 0;
    for (unsigned i = 0; i < input->slot_count; i++) {
        unsigned taken = 0;
        for (unsigned j = 0; j < count && taken < cap; j++)
            taken += strcmp(ret_slots[j].node, input->slots[i].node) == 0;
        if (taken < cap)
            ret_slots[count++] = input->slots[i];
    }
    return count;
}

/* Fill the empty @plan with a layout of the capped slots and its copies; 0, -ENOSPC, -ENOMEM. */
static int plan_capped(const struct planner_input *input, unsigned cap, struct plan *plan)
{
    AUTO_FREE struct planner_slot *slots = calloc((size_t)input->slot_count + 1, sizeof(*slots));
    struct error unread = {0};
    if (!slots)
        return -ENOMEM;
    struct planner_input capped = *input;
    capped.slots = slots;
    capped.slot_count = cap_nodes(input, cap, slots);
    if (capped.slot_count == 0)
        return -ENOSPC;
    int status = planner_run(&capped, &plan->layout, NULL, NULL, &unread);
    return status == 0 ? assign_first(&capped, plan) : status;
}

/* Replace @plan by a layout over several nodes if that gives every stage a copy. */
static int spread(const struct planner_input *input, struct plan *plan)
{
    struct plan *other = plan_new();
    if (!other)
        return -ENOMEM;
    int status = plan_capped(input, (plan->layout.worker_count + 1) / 2, other);
    if (status == 0 && shadow_stages_bare_stages(&other->layout) == 0 &&
        other->layout.predicted_step_seconds <=
            SLOWER_WORTH * plan->layout.predicted_step_seconds) {
        struct plan better = *other;
        *other = *plan;
        *plan = better;
    }
    plan_free(other);
    return status == -ENOSPC ? 0 : status;
}

int shadow_stages_layout(const struct planner_input *input, struct plan *plan,
                         struct planner_choice *ret_choices, unsigned *ret_choice_count,
                         struct error *error)
{
    int status = planner_run(input, &plan->layout, ret_choices, ret_choice_count, error);
    if (status < 0)
        return status;
    status = assign_first(input, plan);
    if (status == 0 && shadow_stages_bare_stages(&plan->layout) > 0)
        status = spread(input, plan);
    return status < 0 ? error_set(error, status, "no memory to place shadows") : 0;
}
