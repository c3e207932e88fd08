/*
 * Changes to the places of a checkpoint after its commit: lost copies are replaced, and shares
 * return from the object store.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "elastic/copies/copies.h"

/* Return the index of the copy node called @name, or -1. */
static int find_copy_node(const struct plan_checkpoints *checkpoints, const char *name,
                          size_t length)
{
    for (unsigned i = 0; i < checkpoints->copy_node_count; i++)
        if (strlen(checkpoints->copy_nodes[i].node) == length &&
            memcmp(checkpoints->copy_nodes[i].node, name, length) == 0)
            return (int)i;
    return -1;
}

/* Return the group of @writer's share and its length; NULL: none. */
static const char *find_group(const char *shares, const char *writer, size_t *ret_length)
{
    size_t name = strlen(writer);
    for (const char *at = shares; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (strncmp(at, writer, name) == 0 && (at[name] == '+' || name == length)) {
            *ret_length = length;
            return at;
        }
        at += length;
    }
    return NULL;
}

static bool group_has(const char *group, size_t length, const char *node)
{
    size_t name = strlen(node);
    for (size_t at = 0; at < length; at += strcspn(group + at, "+ ") + 1)
        if (strcspn(group + at, "+ ") == name && memcmp(group + at, node, name) == 0)
            return true;
    return false;
}

/* Return the offset of the first place after the writer's that is not a copy node of @checkpoints;
 * 0: none. */
static size_t find_absent(const char *group, size_t length,
                          const struct plan_checkpoints *checkpoints)
{
    for (size_t at = strcspn(group, "+ ") + 1; at < length;) {
        size_t name = strcspn(group + at, "+ ");
        if (find_copy_node(checkpoints, group + at, name) < 0)
            return at;
        at += name + 1;
    }
    return 0;
}

static unsigned count_places(const char *group, size_t length)
{
    unsigned count = 1;
    for (size_t i = 0; i < length; i++)
        count += group[i] == '+';
    return count;
}

/* Replace [at, at + size) of @shares by @text. */
static int replace(char **shares, size_t at, size_t size, const char *text)
{
    const char *old = *shares ? *shares : "";
    size_t all = strlen(old), length = strlen(text);
    if (all - size + length >= COPIES_SHARES_SIZE)
        return -ENOSPC;
    char *changed = malloc(all - size + length + 1);
    if (!changed)
        return -ENOMEM;
    memcpy(changed, old, at);
    memcpy(changed + at, text, length);
    memcpy(changed + at + length, old + at + size, all - at - size + 1);
    free(*shares);
    *shares = changed;
    return 0;
}

int copies_add(char **shares, const char *writer, const char *node, const struct plan *plan)
{
    char text[2 * NAME_SIZE + 3];
    const char *now = *shares ? *shares : "";
    size_t length = 0, end = strlen(now);
    const char *group = find_group(now, writer, &length);
    if (!group) {
        bool own = strcmp(writer, node) == 0;
        snprintf(text, sizeof(text), "%s%s%s%s", end > 0 ? " " : "", writer, own ? "" : "+",
                 own ? "" : node);
        return replace(shares, end, 0, text);
    }
    if (group_has(group, length, node))
        return 0;
    size_t at = (size_t)(group - now);
    if (count_places(group, length) < COPIES_MAX) {
        snprintf(text, sizeof(text), "+%s", node);
        return replace(shares, at + length, 0, text);
    }
    size_t absent = plan ? find_absent(group, length, &plan->checkpoints) : 0;
    return absent == 0 ? -ENOSPC
                       : replace(shares, at + absent, strcspn(group + absent, "+ "), node);
}

/* ---- a new checkpoint ---- */

int copies_places(const struct plan *plan,
                  bool (*has)(const void *context, unsigned keeper, unsigned writer),
                  const void *context, char **ret_shares)
{
    struct bytes text = {0};
    unsigned count = copies_writer_count(plan);
    int status = 0;
    for (unsigned writer = 0; status == 0 && writer < count; writer++) {
        unsigned places = 1;
        status = bytes_append_format(&text, "%s%s", writer > 0 ? " " : "",
                                     plan->checkpoints.copy_nodes[writer].node);
        for (unsigned i = 0; status == 0 && i < count && places < COPIES_MAX; i++)
            if (i != writer && has(context, i, writer)) {
                status = bytes_append_format(&text, "+%s", plan->checkpoints.copy_nodes[i].node);
                places++;
            }
    }
    if (status == 0)
        status = bytes_append(&text, "", 1);
    if (status == 0 && text.size_bytes > COPIES_SHARES_SIZE)
        status = -ENOSPC;
    if (status == 0)
        *ret_shares = (char *)text.data;
    else
        bytes_done(&text);
    return status;
}

/* ---- missing copies ---- */

struct mending {
    const struct plan *plan;
    unsigned loads[PLAN_COPY_NODES_MAX]; /* shares that each copy node has or will get */
    bool here[PLAN_COPY_NODES_MAX];      /* copy nodes that have the current share */
};

static const char *domain_of(const struct plan_copy_node *copy_node)
{
    return copy_node->domain[0] != '\0' ? copy_node->domain : copy_node->node;
}

/* Find the copy nodes that have the share of @group and return their number. */
static unsigned look(struct mending *mending, const char *group, size_t length)
{
    unsigned count = 0;
    memset(mending->here, 0, sizeof(mending->here));
    for (size_t at = 0; at < length;) {
        size_t name = strcspn(group + at, "+ ");
        int copy_node = find_copy_node(&mending->plan->checkpoints, group + at, name);
        if (copy_node >= 0 && !mending->here[copy_node]) {
            mending->here[copy_node] = true;
            count++;
        }
        at += name + 1;
    }
    return count;
}

static bool domain_taken(const struct mending *mending, unsigned copy_node)
{
    const struct plan *plan = mending->plan;
    for (unsigned i = 0; i < plan->checkpoints.copy_node_count; i++)
        if (mending->here[i] && strcmp(domain_of(&plan->checkpoints.copy_nodes[i]),
                                       domain_of(&plan->checkpoints.copy_nodes[copy_node])) == 0)
            return true;
    return false;
}

/* Return the copy node for the next copy of the current share; -1: all copy nodes have it. */
static int choose(const struct mending *mending)
{
    int best = -1;
    bool best_taken = false;
    for (unsigned i = 0; i < copies_writer_count(mending->plan); i++) {
        if (mending->here[i])
            continue;
        bool taken = domain_taken(mending, i);
        if (best < 0 || taken < best_taken ||
            (taken == best_taken && mending->loads[i] < mending->loads[best])) {
            best = (int)i;
            best_taken = taken;
        }
    }
    return best;
}

static void count_loads(struct mending *mending, const char *shares)
{
    for (const char *at = shares; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        look(mending, at, length);
        for (unsigned i = 0; i < mending->plan->checkpoints.copy_node_count; i++)
            mending->loads[i] += mending->here[i];
        at += length;
    }
}

unsigned copies_missing(const struct plan *plan, unsigned copies, const char *shares,
                        const char *node, char (*ret_writers)[NAME_SIZE], unsigned writers_max)
{
    AUTO_FREE struct mending *mending = calloc(1, sizeof(*mending));
    unsigned found = 0;
    if (!mending || !shares)
        return 0;
    mending->plan = plan;
    count_loads(mending, shares);
    for (const char *at = shares; *at != '\0'; at += strspn(at, " ")) {
        size_t length = strcspn(at, " "), writer = strcspn(at, "+ ");
        unsigned count = look(mending, at, length);
        int copy_node = 0;
        for (; count > 0 && count < copies && (copy_node = choose(mending)) >= 0; count++) {
            mending->here[copy_node] = true;
            mending->loads[copy_node]++;
            if (strcmp(plan->checkpoints.copy_nodes[copy_node].node, node) == 0 &&
                found < writers_max)
                snprintf(ret_writers[found++], NAME_SIZE, "%.*s", (int)writer, at);
        }
        at += length;
    }
    return found;
}
