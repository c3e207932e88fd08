#include "protocol/generation_entry.h"

/* An operation of another stage takes at most this many times as long: it has other units, or is a
 * backward. */
#define TURNS_AS_LONG 4u

bool generation_entry_applies(const struct generation_entry *entry, const struct plan *plan)
{
    return plan->start.has_commit && entry->holds &&
           plan->start.commit.step == entry->applied_step + 1;
}

enum generation_entry_state generation_entry_state(const struct generation_entry *entry,
                                                   const struct plan *plan, unsigned rank)
{
    bool another_step = plan->start.source == PLAN_SOURCE_MEMORY && !plan->change.planned &&
                        entry->has_state && entry->applied_step != plan->start.resume_step;

    if (!another_step)
        return GENERATION_ENTRY_KEEPS;
    return plan->layout.workers[rank].instance != 0 ? GENERATION_ENTRY_REFUSES
                                                    : GENERATION_ENTRY_DROPS;
}

bool generation_entry_steps_aside(const struct generation_entry *entry, const struct plan *plan)
{
    return !plan->change.planned && plan->layout.worker_count > 0 &&
           plan->start.source == PLAN_SOURCE_MEMORY && entry->has_state &&
           entry->applied_step == plan->start.resume_step;
}

bool generation_entry_is_newcomer(const struct plan *plan, unsigned rank)
{
    return plan->change.planned && plan->layout.workers[rank].instance == 0;
}

uint64_t generation_entry_links_ns(const struct plan *plan, const struct plan *named,
                                   uint64_t start_ns, uint64_t turn_ns)
{
    uint64_t operations_ns;

    if (plan->start.source != PLAN_SOURCE_MEMORY && named == plan)
        return GENERATION_ENTRY_NO_LIMIT;
    if (!named->change.planned)
        return start_ns;
    operations_ns = MAX(named->change.busy_ns, TURNS_AS_LONG * turn_ns);
    return start_ns + operations_ns;
}

bool generation_entry_is_replaced(const struct plan *pending, uint64_t generation, bool newcomer)
{
    return pending && (newcomer || !pending->change.planned || plan_revokes(pending, generation));
}
