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
#include "daemon/core/event_loop.h"
#include "daemon/core/mirror.h"
#include "daemon/core/outbox.h"
#include "membership/etcd/etcd.h"
#include "membership/kv/election.h"
#include "membership/kv/keys.h"
#include "membership/kv/records.h"
#include "membership/kv/registry.h"
#include "membership/transport/http_token.h"

struct inventory;
struct job;
struct leading;
struct slot_service;
struct retiring;
struct scrubbing;
struct storing;
struct suspicion;
struct fencing;
struct earlier_report;
struct http_server;

struct daemon {
    const struct config *config;
    /* required from readers, and presented to other nodes; "": none */
    char http_token[HTTP_TOKEN_SIZE];
    struct event_loop loop;
    struct etcd *etcd;
    const struct kv *kv; /* etcd's */
    struct kv_watch *watch;
    struct registry *registry;
    struct election *election;
    struct outbox *outbox;
    struct mirror mirror;
    bool watches_all; /* true: also the leader's keys */
    bool partial;     /* keys are missing from the mirror: not received yet, or not watched */
    struct earlier_report *earlier;
    struct node_record self;
    struct inventory *inventory;
    struct slot_service *slot_service;
    uint64_t incarnation;
    bool store_away; /* limits the log to one line per outage and one per recovery */
    bool registered;
    bool stopping;                  /* SIGTERM: drain, then leave */
    uint64_t stop_deadline_unix_ns; /* then leave even if workers still run */
    bool abandoning;                /* SIGUSR2: leave at once, workers go on (an upgrade) */
    int exit_code;
    struct job *jobs; /* linked list */
    struct leading *leading;
    struct storing *storing;
    struct scrubbing *scrubbing;
    uint64_t verified_count; /* checkpoints that this daemon has read back as good */
    struct retiring *retiring;
    struct suspicion *suspicion;
    struct fencing *fencing;
    struct http_server *http;
    sd_event_source *reconcile, *drain_deadline;
};

/** daemon_run() - run until the daemon ends. Return: the process's exit code */
int daemon_run(const struct config *config);

/** daemon_say_goodbye() - deregister, then leave; no effect when called again */
void daemon_say_goodbye(struct daemon *daemon, int exit_code);
/** daemon_leave() - end the loop; the leases expire on their own */
void daemon_leave(struct daemon *daemon, int exit_code);
/** daemon_wake() - schedule a reconciliation before the loop sleeps */
void daemon_wake(struct daemon *daemon);
/** daemon_publish_self() - publish the node's record after a change (a bad slot, draining) */
void daemon_publish_self(struct daemon *daemon);
/** daemon_job_dir() - format <data_dir>/jobs/<job> */
void daemon_job_dir(const struct daemon *daemon, const char *job, char ret_path[CONFIG_TEXT_SIZE]);
