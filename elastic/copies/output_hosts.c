#include "elastic/copies/output_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool keeps_outputs(const struct job_freezing *freezing)
{
    return freezing->cache_mb > 0 &&
           (freezing->policy != JOB_FREEZE_NONE || freezing->from_start > 0);
}

int output_hosts_fill(struct plan *plan, const struct job_freezing *freezing,
                      const struct member *nodes, unsigned node_count)
{
    const struct plan_layout *layout = &plan->layout;
    struct plan_hosts hosts = {0};

    free(plan->hosts.list); /* of the plan that workers were prepared for */
    plan->hosts = hosts;

    if (!keeps_outputs(freezing) || layout->worker_count < 2)
        return 0;
    hosts.list = calloc(layout->worker_count, sizeof(*hosts.list));
    if (!hosts.list)
        return -ENOMEM;
    for (unsigned n = 0; n < node_count && hosts.count < PLAN_HOSTS_MAX; n++) {
        const struct member *node = &nodes[n];
        int rank = node->http[0] ? plan_layout_find_node(layout, node->name) : -1;
        if (rank < 0 || (unsigned)rank >= layout->worker_count)
            continue;
        struct plan_host *host = &hosts.list[hosts.count++];
        memcpy(host->node, node->name, sizeof(host->node));
        memcpy(host->http, node->http, sizeof(host->http));
    }
    if (hosts.count < 2) {
        free(hosts.list);
        return 0;
    }
    plan->hosts = hosts;
    return 0;
}
