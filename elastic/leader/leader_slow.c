#include "elastic/leader/leader_slow.h"

#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"

static bool is_slot(const struct plan_slow *slow, const char *node, unsigned slot)
{
    return slow->slot == slot && strcmp(slow->node, node) == 0;
}

static bool is_used(const struct plan_layout *layout, const char *node, unsigned slot)
{
    int rank = plan_layout_find(layout, node, slot);
    return rank >= 0 && (unsigned)rank < layout->worker_count;
}

static bool on_probation(const struct plan_slow *slow)
{
    return slow->speed >= 1;
}

static const struct leader_slow_seen *find_seen(const struct leader_slow_slots *known,
                                                const struct plan_slow *slow, bool used)
{
    for (unsigned i = 0; i < known->count; i++) {
        const struct leader_slow_seen *seen = &known->seen[i];
        if (is_slot(slow, seen->node, seen->slot) && seen->times == slow->times &&
            seen->used == used)
            return seen;
    }
    return NULL;
}

void leader_slow_refresh(const struct leader_view *view, struct leader_slow_slots *known)
{
    struct leader_slow_seen fresh[PLAN_SLOW_MAX];
    unsigned count = view->plan ? view->plan->slow_count : 0;
    for (unsigned i = 0; i < count; i++) {
        const struct plan_slow *slow = &view->plan->slow[i];
        bool used = is_used(&view->plan->layout, slow->node, slow->slot);
        const struct leader_slow_seen *seen = find_seen(known, slow, used);
        fresh[i] = (struct leader_slow_seen){.slot = slow->slot,
                                             .times = slow->times,
                                             .used = used,
                                             .since_ns = seen ? seen->since_ns : view->now_ns};
        memcpy(fresh[i].node, slow->node, sizeof(fresh[i].node));
    }
    memcpy(known->seen, fresh, count * sizeof(*fresh));
    known->count = count;
}

/* Return the time for which a slot that was found slow @times times is left out, and then on
 * probation. */
static uint64_t term_ns(const struct leader_context *context, unsigned times)
{
    return timeouts_doubled(TIMEOUTS_SLOW_SLOT_MIN, times, TIMEOUTS_SLOW_SLOT_MAX) *
           context->view->failure_timeout_ns;
}

/* Return the end of that time, which is in the future if the plan in force does not know the
 * slot. */
static uint64_t due_ns(const struct leader_context *context, const struct plan_slow *slow)
{
    bool used = is_used(&context->view->plan->layout, slow->node, slow->slot);
    const struct leader_slow_seen *seen = find_seen(&context->memory->slow, slow, used);
    uint64_t since_ns = seen ? seen->since_ns : context->view->now_ns;
    return since_ns + term_ns(context, slow->times);
}

static const struct plan_slow *find_known(const struct leader_context *context,
                                          const struct member *node, unsigned slot)
{
    const struct plan *plan = context->view->plan;
    for (unsigned i = 0; plan && i < plan->slow_count; i++)
        if (is_slot(&plan->slow[i], node->name, slot) &&
            plan->slow[i].incarnation == node->incarnation)
            return &plan->slow[i];
    return NULL;
}

/*
 * Return the judgement if it counts now. A judgement that a slot is fast again counts only after
 * the slot's time, so that a slot whose speed changes often does not change the layout as often.
 */
static const struct straggler_judgement *believed(struct leader_context *context, unsigned index)
{
    const struct leader_view *view = context->view;
    const struct straggler_judgement *judgement = &view->stragglers.judgements[index];
    if (judgement->rank >= view->plan->layout.worker_count)
        return NULL;
    const struct plan_worker *worker = &view->plan->layout.workers[judgement->rank];
    const struct member *node = roster_node(&context->roster, worker->node);
    const struct plan_slow *slow = node ? find_known(context, node, worker->slot) : NULL;
    if (!slow || judgement->speed <= slow->speed)
        return judgement;
    uint64_t due = due_ns(context, slow);
    if (view->now_ns >= due)
        return judgement;
    leader_wake(context, due);
    return NULL;
}

static const struct straggler_judgement *judgement_on(struct leader_context *context,
                                                      const char *node, unsigned slot)
{
    const struct leader_view *view = context->view;
    for (unsigned i = 0; view->plan && i < view->stragglers.count; i++) {
        const struct straggler_judgement *judgement = believed(context, i);
        if (judgement && view->plan->layout.workers[judgement->rank].slot == slot &&
            strcmp(view->plan->layout.workers[judgement->rank].node, node) == 0)
            return judgement;
    }
    return NULL;
}

double leader_slow_speed(struct leader_context *context, const struct member *node, unsigned slot)
{
    const struct straggler_judgement *judgement = judgement_on(context, node->name, slot);
    const struct plan_slow *slow = find_known(context, node, slot);
    if (judgement)
        return judgement->speed;
    if (!slow || on_probation(slow) || is_used(&context->view->plan->layout, node->name, slot) ||
        context->view->plan->layout.replica_count < 2)
        return slow ? slow->speed : 1;
    uint64_t due = due_ns(context, slow);
    if (context->view->now_ns >= due)
        return 1;
    leader_wake(context, due);
    return slow->speed;
}

static void add_slow(struct plan *plan, const struct plan_slow *slow)
{
    if (plan->slow_count == PLAN_SLOW_MAX) { /* drop the oldest */
        memmove(plan->slow, plan->slow + 1, (PLAN_SLOW_MAX - 1) * sizeof(*plan->slow));
        plan->slow_count--;
    }
    plan->slow[plan->slow_count++] = *slow;
}

/* Update a slow slot of the plan in force for the next plan; false: it is not slow any more. */
static bool carried(struct leader_context *context, const struct plan_layout *layout,
                    struct plan_slow *slow)
{
    const struct member *node = roster_node(&context->roster, slow->node);
    const struct straggler_judgement *judgement = judgement_on(context, slow->node, slow->slot);
    if (!node)
        return true;
    if (node->incarnation != slow->incarnation)
        return false;
    bool stays = is_used(&context->view->plan->layout, slow->node, slow->slot);
    if (judgement) {
        slow->times += judgement->speed < slow->speed;
        slow->speed = judgement->speed;
    } else if (!stays && is_used(layout, slow->node, slow->slot)) {
        slow->speed = leader_slow_speed(context, node, slow->slot);
    } else if (stays && on_probation(slow)) {
        return context->view->now_ns < due_ns(context, slow);
    }
    return true;
}

void leader_slow_carry(struct leader_context *context, struct plan *plan)
{
    const struct leader_view *view = context->view;
    plan->slow_count = 0;
    for (unsigned i = 0; view->plan && i < view->plan->slow_count; i++) {
        struct plan_slow slow = view->plan->slow[i];
        if (carried(context, &plan->layout, &slow))
            add_slow(plan, &slow);
    }
    for (unsigned i = 0; view->plan && i < view->stragglers.count; i++) {
        const struct straggler_judgement *judgement = &view->stragglers.judgements[i];
        if (judgement->rank >= view->plan->layout.worker_count || judgement->speed >= 1)
            continue;
        const struct plan_worker *worker = &view->plan->layout.workers[judgement->rank];
        const struct member *node = roster_node(&context->roster, worker->node);
        if (!node || find_known(context, node, worker->slot))
            continue;
        struct plan_slow slow = {.slot = worker->slot,
                                 .incarnation = node->incarnation,
                                 .speed = judgement->speed,
                                 .times = 1};
        memcpy(slow.node, worker->node, sizeof(slow.node));
        add_slow(plan, &slow);
    }
}

bool leader_slow_found(struct leader_context *context)
{
    for (unsigned i = 0; i < context->view->stragglers.count; i++)
        if (believed(context, i))
            return true;
    return false;
}

const char *leader_slow_words(struct leader_context *context, const struct plan_layout *layout,
                              char *ret_words, size_t size)
{
    const struct leader_view *view = context->view;
    for (unsigned i = 0; i < view->stragglers.count; i++) {
        const struct straggler_judgement *judgement = believed(context, i);
        if (!judgement)
            continue;
        const struct plan_worker *worker = &view->plan->layout.workers[judgement->rank];
        if (judgement->speed < 1)
            snprintf(ret_words, size, "%s/%u computes %.1f times slower than its peers",
                     worker->node, worker->slot, 1 / judgement->speed);
        else
            snprintf(ret_words, size, "%s/%u computes as fast as its peers again", worker->node,
                     worker->slot);
        return ret_words;
    }
    for (unsigned i = 0; i < view->plan->slow_count; i++) {
        const struct plan_slow *slow = &view->plan->slow[i];
        if (is_used(&view->plan->layout, slow->node, slow->slot) ||
            !is_used(layout, slow->node, slow->slot))
            continue;
        snprintf(ret_words, size, "%s/%u, which was slow, is tried again", slow->node, slow->slot);
        return ret_words;
    }
    return NULL;
}

void leader_slow_say(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    for (unsigned i = 0; i < view->stragglers.count; i++) {
        const struct straggler_judgement *judgement = &view->stragglers.judgements[i];
        if (judgement->rank >= view->plan->layout.worker_count || judgement->speed >= 1)
            continue;
        const struct plan_worker *worker = &view->plan->layout.workers[judgement->rank];
        leader_add(context,
                   "; %s/%u computes %.1f times slower than its peers, and no layout without it "
                   "is faster: look for other programs on its node, or add a slot",
                   worker->node, worker->slot, 1 / judgement->speed);
        return;
    }
}
