/*
 * The invariants of a plan, checked before any use. A plan that violates an invariant would lose or
 * duplicate state. A leader that made such a plan has a bug, and a worker that receives one must
 * refuse it.
 */
#include "elastic/job/job_training.h"
#include "elastic/plan/plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"

static bool key_valid(const char *key)
{
    for (unsigned i = 0; i < PLAN_KEY_HEX_SIZE - 1; i += 16) {
        uint64_t word;
        if (strnlen(key, PLAN_KEY_HEX_SIZE) != PLAN_KEY_HEX_SIZE - 1 ||
            !hex_parse(key + i, 16, &word))
            return false;
    }
    return true;
}

static int check_head(const struct plan *plan, struct error *error)
{
    if (!name_valid(plan->job))
        return error_set(error, -EINVAL, "\"job\" is not a name");
    if (plan->generation == 0)
        return error_set(error, -EINVAL, "\"generation\" counts from 1");
    if (plan->layout.worker_count + plan->layout.donor_count > 0 && !key_valid(plan->links.key))
        return error_set(error, -EINVAL, "\"key\" must be %d hexadecimal digits",
                         PLAN_KEY_HEX_SIZE - 1);
    if (!isfinite(plan->layout.predicted_step_seconds) || plan->layout.predicted_step_seconds < 0)
        return error_set(error, -EINVAL, "\"predicted_step_seconds\" is not a duration");
    if (!isfinite(plan->layout.head_seconds) || plan->layout.head_seconds < 0)
        return error_set(error, -EINVAL, "\"head_seconds\" is not a duration");
    if (!isfinite(plan->layout.copy_seconds) || plan->layout.copy_seconds < 0)
        return error_set(error, -EINVAL, "\"copy_seconds\" is not a duration");
    if (!isfinite(plan->layout.prediction_factor) || plan->layout.prediction_factor < 0)
        return error_set(error, -EINVAL, "\"prediction_factor\" is not a factor");
    if (!isfinite(plan->change.before_seconds) || plan->change.before_seconds < 0)
        return error_set(error, -EINVAL, "\"predicted_before_seconds\" is not a duration");
    if (!isfinite(plan->change.switch_seconds) || plan->change.switch_seconds < 0)
        return error_set(error, -EINVAL, "\"switch_seconds\" is not a duration");
    if (!isfinite(plan->trial.before_seconds) || plan->trial.before_seconds < 0)
        return error_set(error, -EINVAL, "before: \"step_seconds\" is not a duration");
    return 0;
}

/* Check that the ranges start at 0 and are not empty, so that they cover [0, last) exactly once. */
static int check_bounds(const char *key, const unsigned *bounds, unsigned range_count, unsigned max,
                        struct error *error)
{
    if (bounds[0] != 0)
        return error_set(error, -EINVAL, "\"%s\" must begin with 0", key);
    for (unsigned i = 0; i < range_count; i++)
        if (bounds[i + 1] <= bounds[i])
            return error_set(error, -EINVAL, "\"%s\": range %u is empty", key, i);
    if (bounds[range_count] > max)
        return error_set(error, -EINVAL, "\"%s\" ends at %u, more than %u", key,
                         bounds[range_count], max);
    return 0;
}

static int check_heads(const struct plan_layout *layout, struct error *error)
{
    if (!layout->replica_head)
        return 0;
    for (unsigned replica = 0; replica <= layout->replica_count; replica++) {
        bool outer = replica == 0 || replica == layout->replica_count;
        if (layout->lane_micro_batches == 0 ||
            layout->replica_head[replica] >= (outer ? 1 : layout->lane_micro_batches))
            return error_set(error, -EINVAL,
                             "\"replica_head\"[%u] is %u with lanes of %u micro-batches", replica,
                             layout->replica_head[replica], layout->lane_micro_batches);
    }
    return 0;
}

static int check_layout(const struct plan_layout *layout, struct error *error)
{
    if ((uint64_t)layout->stage_count * layout->replica_count != layout->worker_count)
        return error_set(error, -EINVAL, "%u stages x %u replicas are not %u workers",
                         layout->stage_count, layout->replica_count, layout->worker_count);
    if (layout->worker_count > JOB_DEVICES_MAX || layout->donor_count > JOB_DEVICES_MAX)
        return error_set(error, -EINVAL, "more than %d workers or donors", JOB_DEVICES_MAX);
    if (layout->worker_count == 0 && (layout->stage_count > 0 || layout->replica_count > 0))
        return error_set(error, -EINVAL, "an empty plan has no stages and no replicas");
    if (layout->worker_count == 0)
        return 0;
    int status = check_bounds("stage_first_unit", layout->stage_first_unit, layout->stage_count,
                              STEP_RECORD_UNITS_MAX, error);
    if (status == 0)
        status = check_bounds("replica_first_lane", layout->replica_first_lane,
                              layout->replica_count, JOB_LANES_MAX, error);
    if (status == 0)
        status = check_heads(layout, error);
    if (status == 0 && layout->frozen_layers > plan_layout_unit_count(layout) / 2)
        status = error_set(error, -EINVAL, "\"frozen_layers\" is %u with %u units",
                           layout->frozen_layers, plan_layout_unit_count(layout));
    if (status == 0 && layout->deferred > 0 &&
        (layout->deferred >= layout->stage_count || layout->recompute == PLAN_RECOMPUTE_FULL))
        status = error_set(error, -EINVAL,
                           "\"deferred\" is %u with %u stages, or with full recomputation",
                           layout->deferred, layout->stage_count);
    return status;
}

static int compare_seats(const void *a, const void *b)
{
    const struct plan_worker *const *left = a, *const *right = b;
    int order = strcmp((*left)->node, (*right)->node);
    if (order != 0)
        return order;
    return ((*left)->slot > (*right)->slot) - ((*left)->slot < (*right)->slot);
}

static int check_workers(const struct plan_layout *layout, struct error *error)
{
    unsigned total = layout->worker_count + layout->donor_count;
    bool ascending = true; /* mostly true: no sort is needed */
    AUTO_FREE const struct plan_worker **seats = calloc((size_t)total + 1, sizeof(*seats));
    if (!seats)
        return error_set(error, -ENOMEM, "no memory to check %u workers", total);
    for (unsigned i = 0; i < total; i++) {
        seats[i] = &layout->workers[i];
        if (!name_valid(seats[i]->node))
            return error_set(error, -EINVAL, "workers[%u]: \"node\" is not a name", i);
        if (seats[i]->address[0] == '\0' || strpbrk(seats[i]->address, " ,"))
            return error_set(error, -EINVAL, "workers[%u]: \"address\" is not host:port", i);
        if (seats[i]->slot >= PLAN_SLOTS_MAX)
            return error_set(error, -EINVAL, "workers[%u]: slot %u is over %d", i, seats[i]->slot,
                             PLAN_SLOTS_MAX - 1);
        ascending = ascending && (i == 0 || compare_seats(&seats[i - 1], &seats[i]) < 0);
    }
    if (ascending)
        return 0;
    qsort(seats, total, sizeof(*seats), compare_seats);
    for (unsigned i = 1; i < total; i++)
        if (compare_seats(&seats[i - 1], &seats[i]) == 0)
            return error_set(error, -EINVAL, "slot %u of node %s has two ranks", seats[i]->slot,
                             seats[i]->node);
    return 0;
}

static int check_one_shadow(const struct plan_layout *layout, unsigned index, struct error *error)
{
    const struct plan_shadow *shadow = &layout->shadows[index];
    unsigned kept = 0;
    if (shadow->stage >= layout->stage_count || shadow->rank >= layout->worker_count)
        return error_set(error, -EINVAL, "shadows[%u]: no such stage or rank", index);
    if (index > 0 && shadow->stage <= layout->shadows[index - 1].stage)
        return error_set(error, -EINVAL, "shadows[%u]: stages must ascend", index);
    assert(layout->stage_count > 0); /* the shadow's stage was checked to exist */
    if (shadow->rank % layout->stage_count == shadow->stage)
        return error_set(error, -EINVAL, "shadows[%u]: rank %u computes stage %u itself", index,
                         shadow->rank, shadow->stage);
    const char *owner = layout->workers[plan_layout_rank(layout, 0, shadow->stage)].node;
    if (strcmp(layout->workers[shadow->rank].node, owner) == 0)
        return error_set(error, -EINVAL, "shadows[%u]: stage %u is on node %s itself", index,
                         shadow->stage, owner);
    for (unsigned i = 0; i <= index; i++)
        kept += layout->shadows[i].rank == shadow->rank;
    if (kept > PLAN_SHADOWS_MAX)
        return error_set(error, -EINVAL, "rank %u keeps more than %d stages", shadow->rank,
                         PLAN_SHADOWS_MAX);
    return 0;
}

static int check_shadows(const struct plan_layout *layout, struct error *error)
{
    int status = 0;
    for (unsigned i = 0; status == 0 && i < layout->shadow_count; i++)
        status = check_one_shadow(layout, i, error);
    return status;
}

static int check_source(const struct plan_start *start, struct error *error)
{
    if (start->source != PLAN_SOURCE_MEMORY &&
        (start->move_count > 0 || start->sums_count > 0 || start->has_commit))
        return error_set(error, -EINVAL, "moves, sums and a commit need \"source\" memory");
    if (start->source == PLAN_SOURCE_FRESH && start->resume_step != 0)
        return error_set(error, -EINVAL, "a fresh start resumes from step 0, not %llu",
                         (unsigned long long)start->resume_step);
    if (start->source == PLAN_SOURCE_CHECKPOINT && start->restore_path[0] == '\0')
        return error_set(error, -EINVAL, "\"restore_path\" is empty");
    return 0;
}

static int check_commit(const struct plan *plan, struct error *error)
{
    const struct step_record *commit = &plan->start.commit;
    if (!plan->start.has_commit)
        return 0;
    if (!step_record_complete(commit))
        return error_set(error, -EINVAL, "\"commit\" is not complete");
    if (commit->step != plan->start.resume_step)
        return error_set(error, -EINVAL, "\"commit\" is of step %llu, \"resume_step\" is %llu",
                         (unsigned long long)commit->step,
                         (unsigned long long)plan->start.resume_step);
    if (plan->layout.worker_count > 0 &&
        (commit->unit_count != plan_layout_unit_count(&plan->layout) ||
         commit->lane_count != plan_layout_lane_count(&plan->layout)))
        return error_set(error, -EINVAL, "\"commit\" has %u units and %u lanes, the plan %u and %u",
                         commit->unit_count, commit->lane_count,
                         plan_layout_unit_count(&plan->layout),
                         plan_layout_lane_count(&plan->layout));
    return 0;
}

/* Return (unit, to) as one number. Two moves with the same number would fill the same memory
 * twice. */
static uint64_t move_target(const struct plan_move *move)
{
    return (uint64_t)move->to_rank << 32 | move->unit;
}

static int compare_targets(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static int check_one_move(const struct plan *plan, unsigned index, struct error *error)
{
    const struct plan_move *move = &plan->start.moves[index];
    unsigned total = plan->layout.worker_count + plan->layout.donor_count;
    if (move->from_rank >= total || move->to_rank >= plan->layout.worker_count)
        return error_set(error, -EINVAL, "moves[%u]: no such rank", index);
    if (move->from_rank == move->to_rank)
        return error_set(error, -EINVAL, "moves[%u]: from rank %u to itself", index, move->to_rank);
    if (!plan_layout_keeps(&plan->layout, move->to_rank, move->unit))
        return error_set(error, -EINVAL, "moves[%u]: rank %u does not own unit %u", index,
                         move->to_rank, move->unit);
    return 0;
}

static int check_moves(const struct plan *plan, struct error *error)
{
    if (plan->start.move_count > PLAN_MOVES_MAX)
        return error_set(error, -EINVAL, "more than %u moves", PLAN_MOVES_MAX);
    AUTO_FREE uint64_t *targets = calloc((size_t)plan->start.move_count + 1, sizeof(*targets));
    if (!targets)
        return error_set(error, -ENOMEM, "no memory to check %u moves", plan->start.move_count);
    for (unsigned i = 0; i < plan->start.move_count; i++) {
        int status = check_one_move(plan, i, error);
        if (status < 0)
            return status;
        targets[i] = move_target(&plan->start.moves[i]);
    }
    qsort(targets, plan->start.move_count, sizeof(*targets), compare_targets);
    for (unsigned i = 1; i < plan->start.move_count; i++)
        if (targets[i - 1] == targets[i])
            return error_set(error, -EINVAL, "unit %u moves to rank %u twice",
                             (unsigned)(uint32_t)targets[i], (unsigned)(targets[i] >> 32));
    return 0;
}

static int check_histories(const struct plan *plan, struct error *error)
{
    unsigned total = plan->layout.worker_count + plan->layout.donor_count;
    for (unsigned i = 0; i < plan->start.history_count; i++) {
        const struct plan_move *history = &plan->start.histories[i];
        if (history->from_rank >= total || history->to_rank >= total)
            return error_set(error, -EINVAL, "histories[%u]: no such rank", i);
        if (history->from_rank == history->to_rank)
            return error_set(error, -EINVAL, "histories[%u]: from rank %u to itself", i,
                             history->to_rank);
    }
    return 0;
}

static int check_sums(const struct plan *plan, struct error *error)
{
    unsigned total = plan->layout.worker_count + plan->layout.donor_count;
    if (plan->start.sums_count > PLAN_MOVES_MAX)
        return error_set(error, -EINVAL, "more than %u sums", PLAN_MOVES_MAX);
    for (unsigned i = 0; i < plan->start.sums_count; i++) {
        const struct plan_move *move = &plan->start.sums[i], *before = move - 1;
        if (move->from_rank >= total || move->to_rank >= plan->layout.worker_count)
            return error_set(error, -EINVAL, "sums[%u]: no such rank", i);
        if (move->from_rank == move->to_rank)
            return error_set(error, -EINVAL, "sums[%u]: from rank %u to itself", i, move->to_rank);
        if (i > 0 && (move->from_rank < before->from_rank ||
                      (move->from_rank == before->from_rank && move->to_rank <= before->to_rank)))
            return error_set(error, -EINVAL, "sums[%u]: the ranks must ascend", i);
    }
    return 0;
}

static bool has_copy_node(const struct plan_checkpoints *checkpoints, const char *node)
{
    for (unsigned i = 0; i < checkpoints->copy_node_count; i++)
        if (strcmp(checkpoints->copy_nodes[i].node, node) == 0)
            return true;
    return false;
}

static int check_copy_nodes(const struct plan *plan, struct error *error)
{
    if (plan->checkpoints.copies == 1 || plan->checkpoints.copies > PLAN_COPIES_MAX)
        return error_set(error, -EINVAL, "%u copies of a checkpoint", plan->checkpoints.copies);
    for (unsigned i = 0; i < plan->checkpoints.copy_node_count; i++) {
        const struct plan_copy_node *copy_node = &plan->checkpoints.copy_nodes[i];
        if (!name_valid(copy_node->node) ||
            (copy_node->domain[0] != '\0' && !name_valid(copy_node->domain)))
            return error_set(error, -EINVAL, "stores[%u]: node or domain is not a name", i);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(plan->checkpoints.copy_nodes[j].node, copy_node->node) == 0)
                return error_set(error, -EINVAL, "stores[%u]: node %s twice", i, copy_node->node);
    }
    for (unsigned rank = 0; plan_keeps_copies(plan) && rank < plan->layout.worker_count; rank++)
        if (!has_copy_node(&plan->checkpoints, plan->layout.workers[rank].node))
            return error_set(error, -EINVAL, "node %s of rank %u is not among the stores",
                             plan->layout.workers[rank].node, rank);
    return 0;
}

static int check_slow(const struct plan *plan, struct error *error)
{
    if (plan->slow_count > PLAN_SLOW_MAX)
        return error_set(error, -EINVAL, "more than %d slow slots", PLAN_SLOW_MAX);
    for (unsigned i = 0; i < plan->slow_count; i++) {
        const struct plan_slow *slow = &plan->slow[i];
        if (!name_valid(slow->node))
            return error_set(error, -EINVAL, "slow[%u]: node is not a name", i);
        if (!(slow->speed > 0 && slow->speed <= 1) || slow->times == 0)
            return error_set(error, -EINVAL, "slow[%u]: a speed of %g, found %u times", i,
                             slow->speed, slow->times);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(plan->slow[j].node, slow->node) == 0 && plan->slow[j].slot == slow->slot)
                return error_set(error, -EINVAL, "slow[%u]: %s/%u twice", i, slow->node,
                                 slow->slot);
    }
    return 0;
}

int plan_check(const struct plan *plan, struct error *error)
{
    int status = check_head(plan, error);
    if (status == 0)
        status = check_layout(&plan->layout, error);
    if (status == 0)
        status = check_workers(&plan->layout, error);
    if (status == 0)
        status = check_shadows(&plan->layout, error);
    if (status == 0)
        status = check_source(&plan->start, error);
    if (status == 0)
        status = check_commit(plan, error);
    if (status == 0)
        status = check_moves(plan, error);
    if (status == 0)
        status = check_histories(plan, error);
    if (status == 0)
        status = check_sums(plan, error);
    if (status == 0)
        status = check_copy_nodes(plan, error);
    if (status == 0)
        status = check_slow(plan, error);
    return status;
}
