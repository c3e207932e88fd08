#include "elastic/leader/leader_pair_loss.h"

#include "base/timeouts.h"
#include "elastic/leader/leader_netsplit.h"
#include "elastic/leader/leader_pace.h"

static bool somebody_drains(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    for (unsigned n = 0; n < view->node_count; n++)
        if (view->nodes[n].draining &&
            leader_netsplit_parts(context, &view->plan->layout, &view->nodes[n]))
            return true;
    return false;
}

static bool stands(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    return view->plan && view->plan->links.patient && !context->roster.any_running &&
           context->memory->pair_loss.seen.is_set;
}

bool leader_pair_loss_is_over(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct leader_pair_wait *wait = &context->memory->pair_loss;
    return stands(context) && view->now_ns >= wait->refused_ns &&
           (view->now_ns >= wait->until_ns || somebody_drains(context));
}

void leader_pair_loss_goes_on(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    context->memory->pair_loss.refused_ns =
        view->now_ns + TIMEOUTS_PAIR_LOSS * view->failure_timeout_ns;
}

/* Return how long to wait: as long as the steps since the checkpoint take to compute. */
static uint64_t patience_ns(const struct leader_context *context, const struct plan *plan,
                            uint64_t step)
{
    const struct leader_view *view = context->view;
    uint64_t worth_ns = leader_replay_cost_ns(context, plan, view->checkpoint.step, step);
    return MAX(TIMEOUTS_PAIR_LOSS * view->failure_timeout_ns, worth_ns);
}

void leader_pair_loss_enter(struct leader_context *context, struct plan *plan, uint64_t step)
{
    struct leader_pair_wait *wait = &context->memory->pair_loss;
    plan->links.patient = leader_netsplit_parts(context, &plan->layout, NULL);
    if (!plan->links.patient) {
        instant_clear(&wait->seen);
    } else if (!wait->seen.is_set) {
        wait->seen = instant_at(context->view->now_ns);
        wait->until_ns = context->view->now_ns + patience_ns(context, plan, step);
        wait->refused_ns = 0;
    }
}

void leader_pair_loss_say(struct leader_context *context)
{
    const struct leader_pair_wait *wait = &context->memory->pair_loss;
    if (!context->view->plan->links.patient)
        return;
    leader_add(context, "; the network between them is waited for");
    if (!stands(context))
        return;
    leader_add(context,
               ": after %.0f s, or when one of them is drained, the job goes back to step %llu "
               "without it, if there are slots enough",
               (double)(wait->until_ns - wait->seen.ns) / 1e9,
               (unsigned long long)context->view->checkpoint.step);
    leader_wake(context, MAX(wait->until_ns, wait->refused_ns));
}
