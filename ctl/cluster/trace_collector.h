/*
 * Collect the traces of one job's workers from every node that answers: first the list of traces,
 * then the spans of the wanted steps. In each round a node is asked about only one of its workers,
 * so that it never has to serve more than one answer at once.
 */
#pragma once

#include "ctl/cluster/cluster.h"
#include "ctl/cluster/event_list.h"
#include "ctl/cluster/trace_set.h"
#include "ctl/view/name_list.h"

struct trace_collector {
    struct cluster_client *client; /* borrowed, as all pointers */
    const struct cluster *cluster;
    const char *job;
    struct trace_set set;
    struct event_list events;
    char silent_names[NAME_LIST_SIZE]; /* nodes that did not answer; "": none */
};

void trace_collector_done(struct trace_collector *collector);

/** trace_collector_list() - ask which workers have left traces. Return: 0; -EACCES: a node refused
 * a request without its token; -ENOMEM */
int trace_collector_list(struct trace_collector *collector, struct error *error) CHECK_RESULT;
/** trace_collector_spans() - ask for the spans of steps @from to @to, and of starts of workers.
 * Return: 0; errors of trace_set_take() */
int trace_collector_spans(struct trace_collector *collector, uint64_t from, uint64_t to,
                          struct error *error) CHECK_RESULT;
/** trace_collector_events() - ask for the events since @unix_ns, one answer per node. Return: 0 or
 * -ENOMEM */
int trace_collector_events(struct trace_collector *collector, uint64_t unix_ns,
                           struct error *error) CHECK_RESULT;
