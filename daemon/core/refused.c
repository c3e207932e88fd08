#include "daemon/core/refused.h"

#include <stdio.h>

#include "base/compiler.h"

static unsigned find(const struct refused_checkpoints *refused, int64_t revision)
{
    unsigned i = 0;

    while (i < refused->count && refused->list[i].revision != revision)
        i++;
    return i;
}

static struct refused_checkpoint *take_place(struct refused_checkpoints *refused, int64_t revision)
{
    unsigned place = find(refused, revision);

    if (place == refused->count) {
        place = refused->next;
        refused->next = (refused->next + 1) % REFUSED_MAX;
        refused->count = MIN(refused->count + 1, (unsigned)REFUSED_MAX);
    }
    refused->list[place] = (struct refused_checkpoint){.revision = revision};
    return &refused->list[place];
}

void refused_add(struct refused_checkpoints *refused, int64_t revision, const char *unasked)
{
    struct refused_checkpoint *entry = take_place(refused, revision);

    snprintf(entry->unasked, sizeof(entry->unasked), "%s", unasked);
}

void refused_add_damaged(struct refused_checkpoints *refused, int64_t revision, const char *why)
{
    struct refused_checkpoint *entry = take_place(refused, revision);

    snprintf(entry->damage, sizeof(entry->damage), "%s", why[0] ? why : "it is damaged");
}

void refused_take_back(struct refused_checkpoints *refused)
{
    for (unsigned i = 0; i < refused->count; i++)
        if (!refused->list[i].unasked[0] && !refused->list[i].damage[0])
            refused->list[i].revision = 0; /* no record has this one */
}

const char *refused_damage(const struct refused_checkpoints *refused, int64_t revision)
{
    unsigned place = refused ? find(refused, revision) : 0;

    return refused && place < refused->count && refused->list[place].damage[0]
               ? refused->list[place].damage
               : NULL;
}

const char *refused_unasked(const struct refused_checkpoints *refused, int64_t revision)
{
    unsigned place = refused ? find(refused, revision) : 0;

    return refused && place < refused->count ? refused->list[place].unasked : NULL;
}

const struct worker_report *refused_witness(const struct plan *plan,
                                            const struct node_report *const *reports,
                                            unsigned report_count)
{
    if (!plan || plan->start.source != PLAN_SOURCE_CHECKPOINT)
        return NULL;
    for (unsigned i = 0; i < report_count; i++)
        for (unsigned k = 0; k < reports[i]->worker_count; k++) {
            const struct worker_report *worker = &reports[i]->workers[k];
            if (worker->phase == WORKER_STUCK && worker->cause == CAUSE_CHECKPOINT_LOST &&
                worker->generation == plan->generation &&
                plan_layout_find(&plan->layout, reports[i]->node, worker->slot) >= 0)
                return worker;
        }
    return NULL;
}
