/* The place of a slot in the agent's plans. */
#include <assert.h>
#include <string.h>

#include "elastic/agent/agent_internal.h"

int agent_rank(const struct agent *agent, const struct plan *plan, unsigned slot)
{
    if (!plan)
        return -1;
    assert(plan == agent->plan || plan == agent->next);
    return plan == agent->plan ? agent->plan_ranks[slot] : agent->next_ranks[slot];
}

bool agent_was_sent_prepare(const struct slot_sent *sent, const struct plan *plan)
{
    return sent->prepare == plan->generation && strcmp(sent->prepare_key, plan->links.key) == 0;
}

bool agent_prepared_for(const struct agent_slot *slot, const struct plan *plan)
{
    return plan && slot->status.phase == WORKER_PREPARED &&
           slot->status.generation == plan->generation && agent_was_sent_prepare(&slot->sent, plan);
}
