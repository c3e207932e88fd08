/*
 * firnd, one per node. It keeps the node registered, runs the node's part of every job
 * (daemon/jobs/job.h), and plans all jobs while it is the leader (daemon/leader/leading.h). One
 * thread, one sd-event loop.
 *
 * The mirror of the cluster's keys drives everything: a change marks the daemon dirty, and once per
 * turn of the loop jobs and plans are reconciled with it (daemon/reconcile.h). The decisions are
 * made in elastic/; this folder carries them out.
 */
#pragma once

#include "daemon/config/config.h"
#include "daemon/core/cluster_keys.h"
#include "daemon/core/daemon_node.h"
#include "daemon/core/event_loop.h"
#include "daemon/core/unopened_jobs.h"
#include "membership/transport/http_token.h"
#include "membership/transport/timer.h"

struct earlier_report;
struct fencing;
struct http_server;
struct job;
struct leading;
struct retiring;
struct scrubbing;
struct upload;
struct suspicion;

/* How and when this firnd ends. */
struct daemon_ending {
    bool stopping;             /* SIGTERM: drain, then leave */
    uint64_t deadline_unix_ns; /* of stopping: then leave even if workers still run */
    sd_event_source *drain_deadline;
    bool told;       /* logged that firnd waits for workers of jobs that are not open */
    bool abandoning; /* SIGUSR2: leave at once, workers go on (an upgrade) */
    int exit_code;
};

/* Work on recorded checkpoints. */
struct daemon_checkpoints {
    struct upload *upload;
    struct scrubbing *scrubbing;
    uint64_t verified_count; /* checkpoints that this daemon has read back as good */
};

struct daemon {
    const struct config *config;
    /* required from readers, and presented to other nodes; "": none */
    char http_token[HTTP_TOKEN_SIZE];
    struct event_loop loop;
    struct cluster_keys keys;
    struct daemon_node node;
    struct job *jobs; /* linked list */
    struct unopened_jobs unopened;
    struct timer reopen; /* of unopened jobs */
    struct earlier_report *earlier;
    struct suspicion *suspicion;
    struct fencing *fencing;
    struct leading *leading;
    struct retiring *retiring;
    struct daemon_checkpoints checkpoints;
    struct http_server *http;
    sd_event_source *reconcile;
    bool swept; /* folders of jobs that etcd no longer has (daemon/jobs/frozen_folder.h) */
    struct daemon_ending ending;
};

/** daemon_run() - run until the daemon ends. Return: the process's exit code */
int daemon_run(const struct config *config);

/** daemon_wake() - schedule a reconciliation (daemon/reconcile.h) before the loop sleeps */
void daemon_wake(struct daemon *daemon);
