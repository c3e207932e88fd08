/* The workers that run on the slots right now, as reported by the nodes. */
#pragma once

#include <jansson.h>

#include "ctl/cluster/cluster.h"
#include "ctl/view/name_list.h"

struct worker_info {
    char job[NAME_SIZE], node[NAME_SIZE], phase[16];
    unsigned slot;
    int pid, stage, replica; /* stage, replica: -1 if the worker computes none */
    uint64_t generation, step;
    unsigned first_unit, unit_count, model_units;
    unsigned lanes;        /* of its replica; 0: unknown */
    double lanes_computed; /* by its replica, parts of shared lanes included */
    double compute_seconds, wait_seconds, step_seconds;
    uint64_t memory_bytes; /* peak of its generation; 0: unknown */
    bool held;             /* its node is cut off from etcd, so the worker must not commit */
    bool slowest;          /* clearly the slowest per lane of the replicas of its stage */
};

struct worker_list {
    struct worker_info *workers; /* by job, stage, replica */
    size_t count, capacity;
    char silent[NAME_LIST_SIZE]; /* nodes that did not answer */
    struct error refused;        /* of the first node that wants a token; code 0: none */
};

void worker_list_done(struct worker_list *list);
/** worker_list_add() - add one node's answer about one job; -EBADMSG if it cannot be decoded */
int worker_list_add(struct worker_list *list, const char *job, const char *node,
                    unsigned model_units, const char *text, size_t size_bytes,
                    struct error *error) CHECK_RESULT;
/** worker_list_finish() - sort, and mark the slowest of each stage that has several replicas */
void worker_list_finish(struct worker_list *list);
/** worker_list_load_node() - add one node's workers of one job; none if the node does not answer */
int worker_list_load_node(struct cluster_client *client, const struct cluster_node *node,
                          const struct cluster_job *job, struct worker_list *list,
                          struct error *error) CHECK_RESULT;
/** worker_list_load_job() - add the workers of @job from the nodes of its plan and of the next one;
 * nodes that do not answer are left out and named */
int worker_list_load_job(struct cluster_client *client, const struct cluster *cluster,
                         const struct cluster_job *job, struct worker_list *list,
                         struct error *error) CHECK_RESULT;
/** worker_list_load() - add the workers of all jobs that are not over, in one round: a node that is
 * silent costs one timeout, not one a job */
int worker_list_load(struct cluster_client *client, const struct cluster *cluster,
                     struct worker_list *ret_list, struct error *error) CHECK_RESULT;
