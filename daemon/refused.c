#include "daemon/refused.h"

#include "base/compiler.h"

void refused_add(struct refused_checkpoints *refused, int64_t revision)
{
    if (refused_has(refused, revision))
        return;
    refused->revisions[refused->next] = revision;
    refused->next = (refused->next + 1) % REFUSED_MAX;
    refused->count = MIN(refused->count + 1, (unsigned)REFUSED_MAX);
}

bool refused_has(const struct refused_checkpoints *refused, int64_t revision)
{
    for (unsigned i = 0; refused && i < refused->count; i++)
        if (refused->revisions[i] == revision)
            return true;
    return false;
}

const struct worker_report *refused_witness(const struct plan *plan,
                                            const struct node_report *reports,
                                            unsigned report_count)
{
    if (!plan || plan->source != PLAN_SOURCE_CHECKPOINT)
        return NULL;
    for (unsigned i = 0; i < report_count; i++)
        for (unsigned k = 0; k < reports[i].worker_count; k++) {
            const struct worker_report *worker = &reports[i].workers[k];
            if (worker->phase == WORKER_STUCK && worker->checkpoint_lost &&
                worker->generation == plan->generation &&
                plan_find(plan, reports[i].node, worker->slot) >= 0)
                return worker;
        }
    return NULL;
}
