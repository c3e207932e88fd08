#include "ctl/cluster/node_remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/view/format.h"

struct remarks {
    char *text; /* of NODE_REMARKS_SIZE */
    size_t used;
};

static void add(struct remarks *remarks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append a remark; cut it off at the end of the buffer. */
static void add(struct remarks *remarks, const char *format, ...)
{
    va_list arguments;

    if (remarks->used > 0 && remarks->used < NODE_REMARKS_SIZE)
        remarks->used += (size_t)snprintf(remarks->text + remarks->used,
                                          NODE_REMARKS_SIZE - remarks->used, "; ");
    if (remarks->used >= NODE_REMARKS_SIZE)
        return;
    va_start(arguments, format);
    remarks->used += (size_t)vsnprintf(remarks->text + remarks->used,
                                       NODE_REMARKS_SIZE - remarks->used, format, arguments);
    va_end(arguments);
}

static void add_bad_slots(struct remarks *remarks, const struct cluster_node *node)
{
    const struct node_record *record = &node->record;

    for (unsigned slot = 0; slot < record->slot_count; slot++) {
        uint64_t retry_unix_ns = record->slots[slot].retry_unix_ns;
        char time[FORMAT_SIZE];
        if (!record->slots[slot].bad[0])
            continue;
        if (retry_unix_ns)
            add(remarks, "slot %u is out of service, and tried again at %s: %s", slot,
                format_time(retry_unix_ns, time), record->slots[slot].bad);
        else
            add(remarks, "slot %u is out of service until firnctl node resume %s: %s", slot,
                node->name, record->slots[slot].bad);
    }
}

static void add_slow(struct remarks *remarks, const struct plan_slow *slow, const char *job)
{
    if (slow->speed < 1)
        add(remarks,
            "slot %u computes %.1f times slower than its peers in job %s: look for other "
            "programs on the node",
            slow->slot, 1 / slow->speed, job);
    else
        add(remarks, "slot %u was slow in job %s and is on probation", slow->slot, job);
}

/* List the slots that a job has found to be slow, unless firnd was restarted since. */
static void add_slow_slots(struct remarks *remarks, const struct cluster *cluster,
                           const struct cluster_node *node)
{
    for (size_t i = 0; i < cluster->job_count; i++) {
        const struct cluster_job *job = &cluster->jobs[i];
        unsigned count = job->plan && !cluster_job_over(job) ? job->plan->slow_count : 0;
        for (unsigned s = 0; s < count; s++)
            if (!strcmp(job->plan->slow[s].node, node->name) &&
                job->plan->slow[s].incarnation == node->record.incarnation)
                add_slow(remarks, &job->plan->slow[s], job->name);
    }
}

static bool is_loopback(const char *host)
{
    return !strncmp(host, "127.", 4) || !strcmp(host, "[::1]");
}

/* Warn of the default `address`, 127.0.0.1, which is wrong with more than one machine. */
static void add_address(struct remarks *remarks, const struct cluster *cluster,
                        const struct cluster_node *node)
{
    const struct node_record *mine = &node->record;

    for (size_t i = 0; i < cluster->node_count; i++) {
        const struct cluster_node *other = &cluster->nodes[i];
        const struct node_record *its = &other->record;
        if (other == node || !mine->host[0])
            continue;
        if (!strcmp(mine->host, its->host) && mine->link_port < its->link_port + its->slot_count &&
            its->link_port < mine->link_port + mine->slot_count) {
            add(remarks,
                "has the same address and ports as node %s, %s:%u: set address, or link_port "
                "if both are on one machine",
                other->name, mine->host, mine->link_port);
            return;
        }
        if (is_loopback(mine->host) && !is_loopback(its->host)) {
            add(remarks, "has address %s, which node %s cannot reach: set address", mine->host,
                other->name);
            return;
        }
    }
}

/* Remark on a differing version: normal during an upgrade, a mistake a week later. */
static void add_version(struct remarks *remarks, const struct cluster *cluster,
                        const struct cluster_node *node)
{
    const struct cluster_node *leader = cluster_find_node(cluster, cluster->leader, NULL);

    if (leader && strcmp(leader->record.version, node->record.version) != 0)
        add(remarks, "runs firn %s, and the leader %s", node->record.version,
            leader->record.version);
}

void node_remarks(const struct cluster *cluster, const struct cluster_node *node,
                  char ret_text[NODE_REMARKS_SIZE])
{
    struct remarks remarks = {.text = ret_text};

    ret_text[0] = '\0';
    add_bad_slots(&remarks, node);
    add_slow_slots(&remarks, cluster, node);
    add_address(&remarks, cluster, node);
    add_version(&remarks, cluster, node);
}
