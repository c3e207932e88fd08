/*
 * Problem: the promise of exactness is for one kind of device. Two nodes whose processors or
 * libraries round differently give a job other bits with every change of layout, and nobody
 * notices.
 *
 * Design: every node says what it computes with (leader_node.arithmetic, a text for people that is
 * equal where results are). A job begins on the kind that offers most slots, its plans remember the
 * kind, and slots of another kind are not for it, unless its file says elastic.mixed_devices.
 * A plan from before nodes said so means the kind of its workers.
 */
#include <string.h>

#include "elastic/leader_internal.h"

#define KINDS_MAX 16 /* that are counted; of more, the rest have no chance to be the most */

struct kind {
    const char *arithmetic;
    unsigned slots;
};

static unsigned slots_in_service(const struct leader_node *node)
{
    unsigned count = 0;
    for (unsigned i = 0; i < node->slot_count && !node->draining; i++)
        count += !node->slots[i].bad;
    return count;
}

/* The kind of most slots; of equals the first by its text, so every leader finds the same. */
static const char *most_common(const struct leader_view *view)
{
    struct kind kinds[KINDS_MAX] = {0};
    unsigned count = 0;
    const struct kind *best = NULL;
    for (unsigned n = 0; n < view->node_count; n++) {
        unsigned k = 0;
        while (k < count && strcmp(kinds[k].arithmetic, view->nodes[n].arithmetic) != 0)
            k++;
        if (k == KINDS_MAX)
            continue;
        count = MAX(count, k + 1);
        kinds[k].arithmetic = view->nodes[n].arithmetic;
        kinds[k].slots += slots_in_service(&view->nodes[n]);
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
        const struct leader_node *node = roster_node(&context->roster, plan->workers[rank].node);
        if (node != NULL)
            return node->arithmetic;
    }
    return most_common(view);
}

bool leader_computes_alike(const char *arithmetic, const struct leader_node *node)
{
    return arithmetic == NULL || strcmp(arithmetic, node->arithmetic) == 0;
}
