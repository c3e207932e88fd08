/*
 * firnd: one a node. It keeps the node registered, runs the node's part in every job
 * (daemon/jobs/job.h), and, while it leads, plans them all (daemon/leader/leading.h). One thread,
 * one sd-event loop.
 *
 * Everything is driven by the mirror of the cluster's keys: a change marks the daemon dirty, and
 * once per turn of the loop jobs and plans are brought in line with it (daemon/reconcile.h). What
 * decides is in elastic/; this folder carries it out.
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
    char http_token[HTTP_TOKEN_SIZE]; /* that readers must show, and this node shows to others; "":
                                         none */
    struct event_loop loop;
    struct etcd *etcd;
    const struct kv *kv; /* etcd's */
    struct kv_watch *watch;
    struct registry *registry;
    struct election *election;
    struct outbox *outbox;
    struct mirror mirror;
    bool watches_all; /* also the keys that only a leader follows */
    bool partial;     /* the mirror lacks these: they have not come, or are not watched */
    struct earlier_report *earlier;
    struct node_record self;
    struct inventory *inventory;
    struct slot_service *slot_service;
    uint64_t incarnation;
    bool store_away; /* said once when it goes, once when it is back */
    bool registered;
    bool stopping;                  /* SIGTERM: drain, then leave */
    uint64_t stop_deadline_unix_ns; /* then it leaves, whatever is left */
    bool abandoning;                /* SIGUSR2: leave at once, workers go on (an upgrade) */
    int exit_code;
    struct job *jobs; /* a list */
    struct leading *leading;
    struct storing *storing;
    struct scrubbing *scrubbing;
    uint64_t verified_count; /* checkpoints that it has read back and found good */
    struct retiring *retiring;
    struct suspicion *suspicion;
    struct fencing *fencing;
    struct http_server *http;
    sd_event_source *reconcile, *drain_deadline;
};

/** daemon_run() - until the end. Return: the process's exit code */
int daemon_run(const struct config *config);

/** daemon_say_goodbye() - deregister, then leave; nothing when that was said already */
void daemon_say_goodbye(struct daemon *daemon, int exit_code);
/** daemon_leave() - end the loop; the lease runs out by itself */
void daemon_leave(struct daemon *daemon, int exit_code);
/** daemon_wake() - something changed: reconcile before the loop sleeps */
void daemon_wake(struct daemon *daemon);
/** daemon_publish_self() - the node's record changed (a slot is bad, draining) */
void daemon_publish_self(struct daemon *daemon);
/** daemon_job_dir() - <data_dir>/jobs/<job> */
void daemon_job_dir(const struct daemon *daemon, const char *job, char ret_path[CONFIG_TEXT_SIZE]);
