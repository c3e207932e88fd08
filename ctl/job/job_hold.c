#include "ctl/job/job_hold.h"

#include "ctl/cluster/worker_list.h"

const char *job_held_by(struct cluster_client *client, const struct cluster *cluster,
                        const struct cluster_job *job)
{
    CLEANUP(worker_list_done) struct worker_list list = {0};
    const char *name =
        job->plan && !cluster_job_over(job) ? plan_layout_lone_node(&job->plan->layout) : NULL;
    struct error unread = {0};
    const struct cluster_node *node = name ? cluster_find_node(cluster, name, &unread) : NULL;

    if (!node || worker_list_load_node(client, node, job, &list, &unread))
        return NULL;
    for (size_t i = 0; i < list.count; i++)
        if (list.workers[i].held)
            return node->name;
    return NULL;
}
