/*
 * Problem: the promise of exactness is for one kind of device. Two nodes whose processors or
 * libraries round differently give a job other bits with every change of layout, and nobody
 * notices.
 *
 * Design: every node says what each of its slots computes with (leader_node.arithmetic and, where
 * it has several kinds of devices, other_arithmetic; texts for people that are equal where results
 * are). A job begins on the kind that offers most slots, its plans remember the kind, and slots of
 * another kind are not for it, unless its file says elastic.mixed_devices. A plan from before nodes
 * said so means the kind of its workers.
 */
#include <string.h>

#include "elastic/leader_internal.h"

#define KINDS_MAX 16 /* that are counted; of more, the rest have no chance to be the most */

struct kind {
    const char *arithmetic;
    unsigned slots;
};

const char *leader_computes_with(const struct leader_node *node, const struct leader_slot *slot)
{
    if (slot->computes == 0)
        return node->arithmetic;
    return slot->computes <= LEADER_OTHERS_MAX ? node->other_arithmetic[slot->computes - 1] : "";
}

static void count_slot(struct kind *kinds, unsigned *count, const char *arithmetic, bool in_service)
{
    unsigned k = 0;
    while (k < *count && strcmp(kinds[k].arithmetic, arithmetic) != 0)
        k++;
    if (k == KINDS_MAX)
        return;
    *count = MAX(*count, k + 1);
    kinds[k].arithmetic = arithmetic;
    kinds[k].slots += in_service;
}

/* The kind of most slots; of equals the first by its text, so every leader finds the same. */
static const char *most_common(const struct leader_view *view)
{
    struct kind kinds[KINDS_MAX] = {0};
    unsigned count = 0;
    const struct kind *best = NULL;
    for (unsigned n = 0; n < view->node_count; n++) {
        const struct leader_node *node = &view->nodes[n];
        for (unsigned i = 0; i < node->slot_count; i++)
            count_slot(kinds, &count, leader_computes_with(node, &node->slots[i]),
                       !node->slots[i].bad && !node->draining);
    }
    for (unsigned k = 0; k < count; k++)
        if (best == NULL || kinds[k].slots > best->slots ||
            (kinds[k].slots == best->slots && strcmp(kinds[k].arithmetic, best->arithmetic) < 0))
            best = &kinds[k];
    return best != NULL ? best->arithmetic : "";
}

const char *leader_arithmetic(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *plan = view->plan;
    if (view->spec->elastic.mixed_devices)
        return NULL;
    if (plan != NULL && plan->arithmetic[0] != '\0')
        return plan->arithmetic;
    for (unsigned rank = 0; plan != NULL && rank < plan->worker_count; rank++) {
        const struct plan_worker *worker = &plan->workers[rank];
        const struct leader_node *node = roster_node(&context->roster, worker->node);
        if (node != NULL && worker->slot < node->slot_count)
            return leader_computes_with(node, &node->slots[worker->slot]);
    }
    return most_common(view);
}

bool leader_computes_alike(const char *arithmetic, const struct leader_node *node,
                           const struct leader_slot *slot)
{
    return arithmetic == NULL || strcmp(arithmetic, leader_computes_with(node, slot)) == 0;
}
