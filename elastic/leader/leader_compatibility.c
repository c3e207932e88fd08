/*
 * Problem: not all slots may share a job. Two slots whose processors or libraries round differently
 * give the job other bits with every change of layout, unnoticed. Two slots whose workers speak
 * different link protocols, as in the middle of an upgrade, wait for each other in vain.
 *
 * Design: every node registers the numerics identity of each of its slots (member.numerics_identity
 * and, if it has several kinds of devices, other_numerics_identities; texts for people that are
 * equal if results are), the link protocol of the workers that it starts, and the control protocols
 * of its firnd. A job begins on the kind with the most slots, its plans remember the kind, and
 * slots of another kind are not used. elastic.mixed_devices lifts the requirement on the numerics
 * identity. A plan older than these registrations means the kind of its workers.
 *
 * While nodes are upgraded one by one, running workers continue to train, and are lost to the job
 * only when they fail. When no slot in service has the plan's link protocol any more, the job moves
 * over: it checkpoints at the next boundary, leaves, and begins from there on the present kind
 * (from the newest checkpoint after a failure that the other workers cannot compensate). The
 * numerics identity stays: if no node has that identity any more, the job waits and says so.
 */
#include <stdio.h>
#include <string.h>

#include "elastic/job/job_spec.h"
#include "elastic/leader/leader_internal.h"

#define KINDS_MAX 16 /* kinds counted; later kinds cannot be the most common */

struct kind {
    const char *numerics_identity;
    unsigned links, slots;
};

struct kinds {
    struct kind list[KINDS_MAX];
    unsigned count;
};

static const char *computes_with(const struct member *node, const struct member_slot *slot)
{
    if (slot->computes == 0)
        return node->numerics_identity;
    return slot->computes <= MEMBER_OTHERS_MAX ? node->other_numerics_identities[slot->computes - 1]
                                               : "";
}

/* @numerics_identity: NULL: any */
static bool computes_alike(const char *numerics_identity, const struct member *node,
                           const struct member_slot *slot)
{
    return !numerics_identity || strcmp(numerics_identity, computes_with(node, slot)) == 0;
}

static bool understands_us(const struct member *node)
{
    return versions_meet(node->protocol.control_oldest, node->protocol.control);
}

static bool in_service(const struct member *node, const struct member_slot *slot)
{
    return !node->draining && !slot->bad;
}

static void count_slot(struct kinds *kinds, const char *numerics_identity, unsigned links,
                       bool counts)
{
    unsigned k = 0;
    while (k < kinds->count && (kinds->list[k].links != links ||
                                strcmp(kinds->list[k].numerics_identity, numerics_identity) != 0))
        k++;
    if (k == KINDS_MAX)
        return;
    if (k == kinds->count)
        kinds->list[kinds->count++] =
            (struct kind){.numerics_identity = numerics_identity, .links = links};
    kinds->list[k].slots += counts;
}

/* Compare by slots; ties go to the first text and number, so every leader finds the same kind. */
static bool is_more(const struct kind *kind, const struct kind *than)
{
    if (kind->slots != than->slots)
        return kind->slots > than->slots;
    int order = strcmp(kind->numerics_identity, than->numerics_identity);
    return order < 0 || (order == 0 && kind->links < than->links);
}

/* Find the kind with most slots among those with @numerics_identity (NULL: any); false: there is
 * none. With mixed devices all identities count as one, "". */
static bool most_common(const struct leader_view *view, const char *numerics_identity,
                        struct kind *ret_kind)
{
    struct kinds kinds = {.count = 0};
    for (unsigned n = 0; n < view->node_count; n++) {
        const struct member *node = &view->nodes[n];
        for (unsigned i = 0; i < node->slot_count; i++) {
            const struct member_slot *slot = &node->slots[i];
            if (computes_alike(numerics_identity, node, slot))
                count_slot(&kinds,
                           view->spec->elastic.mixed_devices ? "" : computes_with(node, slot),
                           node->protocol.links, in_service(node, slot));
        }
    }
    for (unsigned k = 0; k < kinds.count; k++)
        if (k == 0 || is_more(&kinds.list[k], ret_kind))
            *ret_kind = kinds.list[k];
    return kinds.count > 0;
}

/* Return the numerics identity of the plan in force; NULL: unknown. */
static const char *known_numerics_identity(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    if (plan && plan->numerics[0] != '\0')
        return plan->numerics;
    for (unsigned rank = 0; plan && rank < plan->layout.worker_count; rank++) {
        const struct plan_worker *worker = &plan->layout.workers[rank];
        const struct member *node = roster_node(&context->roster, worker->node);
        if (node && worker->slot < node->slot_count)
            return computes_with(node, &node->slots[worker->slot]);
    }
    return NULL;
}

static bool runs(const struct plan *plan)
{
    return plan && plan->layout.worker_count > 0;
}

struct leader_compatibility leader_compatibility(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    bool mixed = view->spec->elastic.mixed_devices;
    struct kind common = {.numerics_identity = ""};
    struct leader_compatibility kind = {.numerics_identity =
                                            mixed ? NULL : known_numerics_identity(context)};
    (void)most_common(view, kind.numerics_identity, &common);
    if (!kind.numerics_identity && !mixed)
        kind.numerics_identity = common.numerics_identity;
    kind.links = runs(view->plan) ? view->plan->links.protocol : common.links;
    return kind;
}

bool leader_compatibility_has(const struct leader_compatibility *kind, const struct member *node,
                              const struct member_slot *slot)
{
    return computes_alike(kind->numerics_identity, node, slot) && understands_us(node) &&
           kind->links == node->protocol.links;
}

/* Return the first slot of @node with another numerics identity; NULL: none. */
static const struct member_slot *unlike_slot(const struct leader_compatibility *kind,
                                             const struct member *node)
{
    for (unsigned i = 0; i < node->slot_count; i++)
        if (!computes_alike(kind->numerics_identity, node, &node->slots[i]))
            return &node->slots[i];
    return NULL;
}

#define CORE_SIZE 24

/* Compare texts like "OpenBLAS 0.3.21 Prescott, kernels 2, 1 thread" (kernels/identity.h). If only
 * the core differs, which OpenBLAS takes from the environment, return the core of @wanted. */
static bool lacks_core(const char *with, const char *wanted, char ret_core[CORE_SIZE])
{
    static const char library[] = "OpenBLAS ";
    size_t version = strcspn(wanted + MIN(strlen(wanted), sizeof(library) - 1), " ");
    size_t head = sizeof(library) - 1 + version + 1;
    if (strncmp(wanted, library, sizeof(library) - 1) != 0 || strlen(wanted) <= head ||
        strncmp(with, wanted, head) != 0)
        return false;
    size_t core = strcspn(wanted + head, ","), other = strcspn(with + head, ",");
    if (core == 0 || core >= CORE_SIZE || strcmp(wanted + head + core, with + head + other) != 0)
        return false;
    snprintf(ret_core, CORE_SIZE, "%.*s", (int)core, wanted + head);
    return true;
}

static void unlike_words(const struct leader_compatibility *kind, const struct member *node,
                         const struct member_slot *slot, char *ret_words, size_t size)
{
    static const char unknown[] = "nobody knows what";
    const char *with = computes_with(node, slot);
    char which[32] = "", core[CORE_SIZE], remedy[64] = "";
    if (node->other_numerics_identities[0][0] != '\0')
        snprintf(which, sizeof(which), "slot %u of ", slot->index);
    if (lacks_core(with, kind->numerics_identity, core))
        snprintf(remedy, sizeof(remedy), ", or OPENBLAS_CORETYPE=%s there", core);
    snprintf(ret_words, size,
             "%snode %s computes with %.70s, this job with %.70s: see elastic.mixed_devices%s",
             which, node->name, with[0] != '\0' ? with : unknown,
             kind->numerics_identity[0] != '\0' ? kind->numerics_identity : unknown, remedy);
}

static void links_words(const struct leader_compatibility *kind, const struct member *node,
                        char *ret_words, size_t size)
{
    if (node->protocol.links == 0)
        snprintf(ret_words, size,
                 "node %s does not say which link protocol its workers speak: see its log, restart "
                 "its firnd",
                 node->name);
    else if (kind->links == 0)
        snprintf(ret_words, size,
                 "node %s starts workers of link protocol %u, nobody said what this job's speak: "
                 "upgrade all nodes",
                 node->name, node->protocol.links);
    else
        snprintf(ret_words, size,
                 "node %s starts workers of link protocol %u, this job's speak %u: upgrade all "
                 "nodes",
                 node->name, node->protocol.links, kind->links);
}

static void version_words(const struct leader_compatibility *kind, const struct member *node,
                          char *ret_words, size_t size)
{
    ret_words[0] = '\0';
    if (!understands_us(node))
        snprintf(ret_words, size,
                 "firnd on node %s speaks control protocol %u, the leader %u: upgrade the older",
                 node->name, MAX(node->protocol.control, 1u), VERSIONS_CONTROL);
    else if (kind->links != node->protocol.links)
        links_words(kind, node, ret_words, size);
}

void leader_compatibility_words(const struct leader_compatibility *kind, const struct member *node,
                                char *ret_words, size_t size)
{
    const struct member_slot *unlike = unlike_slot(kind, node);
    ret_words[0] = '\0';
    if (node->slot_count == 0) /* a node without slots starts no workers */
        return;
    version_words(kind, node, ret_words, size);
    if (unlike)
        unlike_words(kind, node, unlike, ret_words, size);
}

bool leader_compatibility_has_changed(const struct leader_context *context)
{
    const struct plan *plan = context->view->plan;
    unsigned links = leader_compatibility(context).links;
    return plan && plan->links.protocol != 0 && links != 0 && links != plan->links.protocol;
}

bool leader_compatibility_is_over(const struct leader_context *context)
{
    const struct leader_view *view = context->view;
    struct leader_compatibility kind = leader_compatibility(context);
    struct kind common;
    unsigned slots = 0;
    if (!runs(view->plan) || !most_common(view, kind.numerics_identity, &common))
        return false;
    for (unsigned n = 0; n < view->node_count; n++) {
        const struct member *node = &view->nodes[n];
        bool serves = understands_us(node) && node->protocol.links == common.links &&
                      !roster_refused(&context->roster, node->name);
        for (unsigned i = 0; i < node->slot_count; i++) {
            const struct member_slot *slot = &node->slots[i];
            if (!in_service(node, slot))
                continue;
            if (leader_compatibility_has(&kind, node, slot))
                return false;
            slots += serves && computes_alike(kind.numerics_identity, node, slot) && !slot->busy;
        }
    }
    return slots >= leader_devices_min(view);
}

static bool offers_alike(const struct leader_compatibility *kind, const struct member *node)
{
    for (unsigned i = 0; i < node->slot_count; i++)
        if (computes_alike(kind->numerics_identity, node, &node->slots[i]))
            return true;
    return false;
}

void leader_compatibility_say(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    struct leader_compatibility kind = leader_compatibility(context);
    char first[200] = "", words[200];
    unsigned count = 0;
    for (unsigned n = 0; n < view->node_count; n++) {
        version_words(&kind, &view->nodes[n], words, sizeof(words));
        if (words[0] == '\0' || !offers_alike(&kind, &view->nodes[n]))
            continue;
        if (count++ == 0)
            memcpy(first, words, sizeof(first));
    }
    if (count > 1)
        leader_add(context, "; %s (and %u nodes more)", first, count - 1);
    else if (count > 0)
        leader_add(context, "; %s", first);
}
