#include "protocol/readiness.h"

void readiness_init(struct readiness *readiness, unsigned rank, uint64_t announced)
{
    *readiness = (struct readiness){.announced_min = announced, .announced_max = announced};
    if (!announced)
        readiness->lacking[readiness->lacking_count++] = rank;
}

void readiness_merge(struct readiness *sum, const struct readiness *part)
{
    if (part->announced_min)
        sum->announced_min =
            sum->announced_min ? MIN(sum->announced_min, part->announced_min) : part->announced_min;
    sum->announced_max = MAX(sum->announced_max, part->announced_max);
    for (uint64_t i = 0; i < part->lacking_count; i++, sum->lacking_count++)
        if (i < READINESS_LACKING_MAX && sum->lacking_count < READINESS_LACKING_MAX)
            sum->lacking[sum->lacking_count] = part->lacking[i];
}

bool readiness_is_complete(const struct readiness *readiness, const struct plan_layout *layout,
                           const struct plan *next)
{
    if (readiness->announced_min != next->generation ||
        readiness->announced_max != next->generation ||
        readiness->lacking_count > READINESS_LACKING_MAX)
        return false;
    if (next->layout.worker_count == 0) /* all ranks write the last checkpoint together */
        return readiness->lacking_count == 0;
    for (uint64_t i = 0; i < readiness->lacking_count; i++) {
        const struct plan_worker *worker = &layout->workers[readiness->lacking[i]];
        if (plan_layout_find(&next->layout, worker->node, worker->slot) >= 0)
            return false;
    }
    return true;
}

uint64_t readiness_switch(const struct readiness *readiness, const struct plan *plan,
                          const struct plan *next)
{
    return next && next->change.planned && next->follows == plan->generation &&
                   readiness_is_complete(readiness, &plan->layout, next)
               ? next->generation
               : 0;
}
