/*
 * The numbers behind a decision about nodes that go at a given time: the time left, and the amount
 * of state that would go with them.
 */
#include <math.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"
#include "elastic/leader/leader_supersede.h"

/* Return the time until a switch can begin, at worst: a step is not left at the ends of its
 * pipeline (early_switch.h), and one more micro-batch may have begun. */
static uint64_t time_to_switch(const struct leader_view *view)
{
    const struct plan_layout *layout = &view->plan->layout;
    const struct job_training *train = &view->spec->train;
    double step_ns = view->progress.step_seconds * 1e9;
    double lanes = fmax(1, (double)train->lanes / MAX(1u, layout->replica_count));
    double count = lanes * train->micro_batches_per_lane;
    return (uint64_t)(step_ns * MIN(1.0, (2.0 * layout->stage_count + 1) / count));
}

/* Return whether the job trains there, or did so when it was told to leave, or whether the plan in
 * force, which has not begun, takes state from there. */
static bool is_needed(const struct leader_context *context, const struct roster_member *member,
                      bool waits)
{
    bool donates = member->rank >= 0 && (waits || !context->view->plan->layout.worker_count);

    return donates || roster_is_worker(&context->roster, member);
}

uint64_t leader_time_left(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    bool waits = leader_change_waits(context);
    uint64_t left_ns = UINT64_MAX;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        uint64_t deadline_ns = member->node ? member->node->drain_deadline_ns : 0;
        if (!is_needed(context, member, waits) || deadline_ns == 0 || !member->node->draining)
            continue;
        left_ns = MIN(left_ns, deadline_ns > view->now_ns ? deadline_ns - view->now_ns : 0);
    }
    return left_ns;
}

static bool stays(const struct leader_context *context, const struct plan_worker *worker)
{
    const struct member *node = roster_node(&context->roster, worker->node);
    return node && !node->draining;
}

/* Sum the bytes that a change that has not begun takes from left-out workers on such nodes: no
 * other worker may have them. */
static size_t donated_bytes(struct leader_context *context, const size_t *unit_bytes)
{
    const struct plan *plan = context->view->plan;
    size_t bytes = 0;
    if (!leader_change_waits(context))
        return 0;
    for (unsigned i = 0; i < plan->start.move_count; i++) {
        const struct plan_move *move = &plan->start.moves[i];
        if (move->from_rank >= plan->layout.worker_count &&
            !stays(context, &plan->layout.workers[move->from_rank]))
            bytes += unit_bytes[move->unit];
    }
    return bytes;
}

/* Sum the bytes of stages all of whose replicas, and shadow, are on nodes that go. */
static void weigh_state(struct leader_context *context, struct preemption *numbers)
{
    const struct plan *plan = context->view->plan;
    AUTO_FREE size_t *unit_bytes = leader_unit_bytes(context, context->view->progress.frozen_layers,
                                                     &numbers->bytes_per_second);
    if (unit_bytes)
        numbers->alone_bytes = donated_bytes(context, unit_bytes);
    for (unsigned stage = 0; stage < plan->layout.stage_count; stage++) {
        int shadow = plan_layout_shadow_of(&plan->layout, stage);
        bool alone = shadow < 0 || !stays(context, &plan->layout.workers[shadow]);
        for (unsigned replica = 0; replica < plan->layout.replica_count; replica++)
            alone = alone &&
                    !stays(context,
                           &plan->layout.workers[plan_layout_rank(&plan->layout, replica, stage)]);
        for (unsigned unit = plan->layout.stage_first_unit[stage];
             alone && unit_bytes && unit < plan->layout.stage_first_unit[stage + 1]; unit++)
            numbers->alone_bytes += unit_bytes[unit];
    }
}

enum preemption_way leader_preempted(struct leader_context *context, bool with_start,
                                     struct preemption *ret_numbers)
{
    const struct leader_view *view = context->view;
    *ret_numbers = (struct preemption){
        .left_ns = leader_time_left(context),
        .start_ns = with_start ? TIMEOUTS_PREEMPTED_START * view->failure_timeout_ns : 0,
        .boundary_ns = time_to_switch(view),
        .links_ns = view->failure_timeout_ns,
        .checkpoint_ns = view->checkpoint.write_ns,
    };
    if (ret_numbers->left_ns != UINT64_MAX)
        weigh_state(context, ret_numbers);
    return preemption_decide(ret_numbers);
}
