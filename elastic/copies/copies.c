/*
 * Problem: assign the copies of every share to nodes from the plan alone, identically on every
 * node, with even load, and so that no two copies fail together.
 *
 * Design: a ring. Nodes are ordered by their place within their domain and then by domain, so
 * neighbours on the ring are of different domains when the domains are equally large. Each node
 * copies to the nodes that follow it. The first pass over the ring takes nodes of domains without a
 * copy. A second pass takes any node when there are fewer domains than copies.
 */
#include "elastic/copies/copies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/copies/member.h"

/* ---- the copy nodes of a plan ---- */

int copies_find(const struct plan_checkpoints *checkpoints, const char *node)
{
    for (unsigned i = 0; i < checkpoints->copy_node_count; i++)
        if (strcmp(checkpoints->copy_nodes[i].node, node) == 0)
            return (int)i;
    return -1;
}

static const struct member *find_node(const struct member *nodes, unsigned node_count,
                                      const char *name)
{
    for (unsigned i = 0; i < node_count; i++)
        if (strcmp(nodes[i].name, name) == 0)
            return &nodes[i];
    return NULL;
}

static void add_copy_node(struct plan_checkpoints *checkpoints, const char *name,
                          const struct member *node)
{
    if (copies_find(checkpoints, name) >= 0)
        return;
    struct plan_copy_node *copy_node = &checkpoints->copy_nodes[checkpoints->copy_node_count++];
    snprintf(copy_node->node, sizeof(copy_node->node), "%s", name);
    if (!node) /* this worker's firnd is away: the worker writes, but its files are out of reach */
        return;
    snprintf(copy_node->http, sizeof(copy_node->http), "%s", node->http);
    snprintf(copy_node->domain, sizeof(copy_node->domain), "%s", node->domain);
}

/* Read the next name of the text of places and advance *at; false at the end. *ret_group is set to
 * whether the name begins a new group. */
static bool next_place(const char **at, char ret_name[NAME_SIZE], bool *ret_group)
{
    size_t length = *at ? strcspn(*at, "+ ") : 0;
    if (length == 0 || length >= NAME_SIZE)
        return false;
    memcpy(ret_name, *at, length);
    ret_name[length] = '\0';
    *at += length;
    *ret_group = **at != '+';
    *at += **at != '\0';
    return true;
}

static unsigned count_places(const char *shares)
{
    char name[NAME_SIZE];
    bool last;
    unsigned count = 0;
    while (next_place(&shares, name, &last))
        count++;
    return count;
}

int copies_fill(struct plan *plan, unsigned copies, const char *shares, const struct member *nodes,
                unsigned node_count)
{
    char name[NAME_SIZE];
    bool last;
    /* A plan without workers has only donors. Their files are still needed. */
    unsigned count =
        plan->layout.worker_count > 0 ? plan->layout.worker_count : plan->layout.donor_count;
    size_t room = (size_t)count + count_places(shares) + 1;
    struct plan_copy_node *copy_nodes = calloc(room, sizeof(*copy_nodes));
    if (!copy_nodes)
        return -ENOMEM;
    free(plan->checkpoints.copy_nodes);
    plan->checkpoints.copy_nodes = copy_nodes;
    plan->checkpoints.copy_node_count = 0;
    plan->checkpoints.copies = copies;
    for (unsigned rank = 0; rank < count; rank++)
        add_copy_node(&plan->checkpoints, plan->layout.workers[rank].node,
                      find_node(nodes, node_count, plan->layout.workers[rank].node));
    while (next_place(&shares, name, &last) &&
           plan->checkpoints.copy_node_count < PLAN_COPY_NODES_MAX) {
        const struct member *node = find_node(nodes, node_count, name);
        if (node)
            add_copy_node(&plan->checkpoints, name, node);
    }
    return 0;
}

static void drop_copy_node(struct plan_checkpoints *checkpoints, int copy_node)
{
    if (copy_node < 0)
        return;
    checkpoints->copy_node_count--;
    memmove(&checkpoints->copy_nodes[copy_node], &checkpoints->copy_nodes[copy_node + 1],
            (checkpoints->copy_node_count - (unsigned)copy_node) *
                sizeof(*checkpoints->copy_nodes));
}

void copies_leave_out(struct plan *plan, const bool *left_out)
{
    for (unsigned rank = 0; left_out && rank < plan->layout.worker_count; rank++)
        if (left_out[rank])
            drop_copy_node(&plan->checkpoints,
                           copies_find(&plan->checkpoints, plan->layout.workers[rank].node));
}

unsigned copies_writer_count(const struct plan *plan)
{
    int last = -1;
    for (unsigned rank = 0; rank < plan->layout.worker_count; rank++) {
        int copy_node = copies_find(&plan->checkpoints, plan->layout.workers[rank].node);
        last = copy_node > last ? copy_node : last;
    }
    return (unsigned)(last + 1);
}

unsigned copies_keeper(const struct plan *plan, unsigned copy_node)
{
    unsigned rank = 0;
    while (rank < plan->layout.worker_count &&
           strcmp(plan->layout.workers[rank].node, plan->checkpoints.copy_nodes[copy_node].node) !=
               0)
        rank++;
    return rank;
}

/* ---- placement ---- */

/* A node without a label is a domain of its own. */
static const char *domain_of(const struct plan_copy_node *copy_node)
{
    return copy_node->domain[0] != '\0' ? copy_node->domain : copy_node->node;
}

static bool same_domain(const struct plan_checkpoints *checkpoints, unsigned left, unsigned right)
{
    return strcmp(domain_of(&checkpoints->copy_nodes[left]),
                  domain_of(&checkpoints->copy_nodes[right])) == 0;
}

/* Return the index of a copy node within its domain. */
static unsigned place_in_domain(const struct plan_checkpoints *checkpoints, unsigned copy_node)
{
    unsigned place = 0;
    for (unsigned i = 0; i < copy_node; i++)
        place += same_domain(checkpoints, i, copy_node);
    return place;
}

/* Return the position of the copy node on the ring. */
static unsigned position(const unsigned *places, unsigned count, unsigned copy_node)
{
    unsigned before = 0;
    for (unsigned i = 0; i < count; i++)
        before +=
            places[i] < places[copy_node] || (places[i] == places[copy_node] && i < copy_node);
    return before;
}

static bool is_taken(const struct plan_checkpoints *checkpoints, unsigned candidate,
                     unsigned copy_node, const unsigned *targets, unsigned count, bool by_domain)
{
    bool taken =
        candidate == copy_node || (by_domain && same_domain(checkpoints, candidate, copy_node));
    for (unsigned i = 0; i < count; i++)
        taken = taken || candidate == targets[i] ||
                (by_domain && same_domain(checkpoints, candidate, targets[i]));
    return taken;
}

unsigned copies_targets(const struct plan *plan, unsigned copy_node,
                        unsigned ret_targets[COPIES_MAX - 1])
{
    unsigned count = copies_writer_count(plan), found = 0;
    AUTO_FREE unsigned *ring = calloc((size_t)count + 1, sizeof(*ring));
    AUTO_FREE unsigned *places = calloc((size_t)count + 1, sizeof(*places));
    if (copy_node >= count || !plan_keeps_copies(plan) || !ring || !places)
        return 0;
    for (unsigned i = 0; i < count; i++)
        places[i] = place_in_domain(&plan->checkpoints, i);
    for (unsigned i = 0; i < count; i++)
        ring[position(places, count, i)] = i;
    unsigned start = position(places, count, copy_node);
    for (int by_domain = 1; by_domain >= 0; by_domain--)
        for (unsigned i = 1; i < count && found < plan->checkpoints.copies - 1; i++) {
            unsigned candidate = ring[(start + i) % count];
            if (!is_taken(&plan->checkpoints, candidate, copy_node, ret_targets, found, by_domain))
                ret_targets[found++] = candidate;
        }
    return found;
}

/* ---- places in commit records ---- */

bool copies_alive(const char *shares, const struct member *nodes, unsigned node_count,
                  char *ret_text, size_t text_size)
{
    char name[NAME_SIZE], group[2 * COPIES_MAX * NAME_SIZE] = "";
    bool last, alive = false;
    while (next_place(&shares, name, &last)) {
        size_t used = strlen(group);
        snprintf(group + used, sizeof(group) - used, "%s%s", used > 0 ? " or " : "", name);
        alive = alive || find_node(nodes, node_count, name);
        if (last && !alive) {
            snprintf(ret_text, text_size, "%s", group);
            return false;
        }
        if (last) {
            group[0] = '\0';
            alive = false;
        }
    }
    return true;
}

void copies_unasked(const char *shares, const struct plan_checkpoints *checkpoints, char *ret_group,
                    size_t group_size)
{
    char name[NAME_SIZE];
    bool last;
    size_t used = 0;
    ret_group[0] = '\0';
    while (next_place(&shares, name, &last))
        if (copies_find(checkpoints, name) < 0 && !copies_has(ret_group, name) &&
            used + strlen(name) + 2 <= group_size)
            used += (size_t)snprintf(ret_group + used, group_size - used, "%s%s",
                                     used > 0 ? "+" : "", name);
}

bool copies_has(const char *shares, const char *node)
{
    char name[NAME_SIZE];
    bool last;
    while (next_place(&shares, name, &last))
        if (strcmp(name, node) == 0)
            return true;
    return false;
}

unsigned copies_left(const char *shares, bool (*is_there)(void *context, const char *node),
                     void *context)
{
    char name[NAME_SIZE];
    bool last, first = true;
    unsigned fewest = 0, count = 0;
    while (next_place(&shares, name, &last)) {
        count += is_there(context, name);
        if (!last)
            continue;
        fewest = first || count < fewest ? count : fewest;
        first = false;
        count = 0;
    }
    return fewest;
}

static bool anywhere(void *context, const char *node)
{
    (void)context;
    (void)node;
    return true;
}

unsigned copies_fewest(const char *shares)
{
    return copies_left(shares, anywhere, NULL);
}
