#include "protocol/pending_plan.h"

static void drop(struct plan **plan)
{
    plan_free(*plan);
    *plan = NULL;
}

static bool replaces(const struct pending_plan *pending, const struct plan *plan)
{
    const struct plan *before = pending->plan;
    bool waits = plan->change.planned && !plan->change.breaks_off;

    if (waits && pending->entered && !plan_revokes(plan, pending->entered))
        return false;
    if (!before)
        return true;
    bool comes_too_late =
        before->generation == pending->awaited && waits && !plan_revokes(plan, before->generation);
    return plan->generation > before->generation && !comes_too_late;
}

/* A worker that waits for a change that @plan revokes waits for @plan. A later plan that does not
 * revoke @plan comes too late. */
static void await_instead(struct pending_plan *pending, const struct plan *plan)
{
    if (plan_revokes(plan, pending->awaited))
        pending->awaited = plan->generation;
}

bool pending_plan_offer(struct pending_plan *pending, struct plan *plan)
{
    if (!replaces(pending, plan))
        return false;
    await_instead(pending, plan);
    if (pending->plan && pending->plan->generation == pending->told_generation)
        pending->told = pending->plan;
    else
        plan_free(pending->plan);
    pending->plan = plan;
    return true;
}

void pending_plan_begin_step(struct pending_plan *pending)
{
    drop(&pending->told);
    pending->told_generation = 0;
}

void pending_plan_tell(struct pending_plan *pending, uint64_t generation)
{
    if (generation != pending->told_generation)
        pending_plan_begin_step(pending);
    pending->told_generation = generation;
}

void pending_plan_await(struct pending_plan *pending, uint64_t generation)
{
    const struct plan *plan = pending->plan;
    bool stands = plan && (!plan->change.planned || plan->change.breaks_off ||
                           plan_revokes(plan, generation));

    pending->awaited = generation;
    if (plan)
        await_instead(pending, plan);
    if (!pending->told || pending->told_generation != generation || stands)
        return;
    plan_free(pending->plan);
    pending->plan = pending->told;
    pending->told = NULL;
}

void pending_plan_enter(struct pending_plan *pending, uint64_t generation)
{
    pending->entered = generation;
}

bool pending_plan_is_here(const struct pending_plan *pending)
{
    return pending->plan && pending->plan->generation >= pending->awaited;
}

struct plan *pending_plan_take(struct pending_plan *pending)
{
    struct plan *plan = pending->plan;

    drop(&pending->told);
    *pending = (struct pending_plan){0};
    return plan;
}

void pending_plan_forget_planned(struct pending_plan *pending)
{
    if (pending->plan && pending->plan->change.planned)
        plan_free(pending_plan_take(pending));
}

void pending_plan_done(struct pending_plan *pending)
{
    plan_free(pending_plan_take(pending));
}
