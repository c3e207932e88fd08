/*
 * Collect one job's metrics and events from every node that answers, in rounds. Each round asks
 * each node only for entries that it has not sent before. No node is asked for metrics far ahead of
 * those that another node still has to send, so memory does not grow with the age of the job.
 */
#pragma once

#include "ctl/cluster/cluster.h"
#include "ctl/cluster/event_list.h"
#include "ctl/cluster/fetch.h"
#include "ctl/cluster/history.h"
#include "ctl/view/name_list.h"

struct collector_source; /* read position of one node */

struct collector {
    struct cluster_client *client;
    char job[NAME_SIZE];
    uint64_t from_step;     /* earlier metrics are not asked for */
    struct history history; /* steps not handed out yet */
    /* Optional: gets the steps that all nodes have passed, in order. */
    int (*take)(void *context, const struct history_step *step);
    void *context;
    struct event_list events;
    struct collector_source *sources;
    size_t source_count;
    unsigned answered, silent;         /* nodes, in the last round */
    char silent_names[NAME_LIST_SIZE]; /* the latter */
    struct error refused;              /* of the first node that wants a token; code 0: none */
};

void collector_init(struct collector *collector, struct cluster_client *client, const char *job,
                    uint64_t from_step);
void collector_done(struct collector *collector);

/** collector_metrics(), collector_events() - run one round over @cluster's nodes
 *
 * Nodes that do not answer, or have no such job, are left out. The newest steps stay in `history`,
 * because another node may still send its copy. Return: 0; -EBADMSG; -ENOMEM; the result of
 * collector->take. */
int collector_metrics(struct collector *collector, const struct cluster *cluster,
                      struct error *error) CHECK_RESULT;
int collector_events(struct collector *collector, const struct cluster *cluster,
                     struct error *error) CHECK_RESULT;

/** collector_check() - return -EACCES if a node refused a request without its token in the last
 * round, else 0 */
int collector_check(const struct collector *collector, struct error *error) CHECK_RESULT;
