/*
 * A miniature cluster for tests: the real leader_decide() and agent_step(), with fakes of
 * everything else (etcd, nodes, worker processes) on a simulated clock with seeded delays.
 *
 * Fake workers follow the protocol of steps and commits. The state of a fake worker is one number
 * per unit: the last step applied to the unit. A double commit, a step lost for one unit and a move
 * from a wrong source are therefore detected at once.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "lib/elastic/cluster_worker.h"

/* --- the leader --- */

/** cluster_build_view() - build the view that the leader has of the cluster */
void cluster_build_view(struct cluster *cluster, struct leader_view *view, struct member *nodes,
                        const struct node_report **reports);

/* --- actions of tests --- */

/** cluster_tick() - let CLUSTER_TICK_NS pass, and everything that is due happen */
void cluster_tick(struct cluster *cluster);

/* Start a new daemon, which finds the running workers. */
void cluster_start_daemon(struct cluster *cluster, unsigned index);

/** cluster_stop_daemon() - end the daemon of a node; its workers go on */
void cluster_stop_daemon(struct cluster *cluster, unsigned index);

/** cluster_kill_worker() - end a worker as SIGKILL does */
void cluster_kill_worker(struct cluster *cluster, struct fake_worker *worker);

/** cluster_kill_node() - end the daemon and all workers of a node */
void cluster_kill_node(struct cluster *cluster, unsigned index);

/** cluster_new() - make a cluster whose daemons run; @seed decides all delays */
struct cluster *cluster_new(uint64_t seed, unsigned nodes, unsigned slots);

/** cluster_free() - free the cluster */
void cluster_free(struct cluster *cluster);

/* Return whether every rank of the plan in force trains in it. */
bool cluster_trains(struct cluster *cluster);

/** cluster_run() - let @seconds of simulated time pass */
void cluster_run(struct cluster *cluster, double seconds);

/* Run until @condition, at most @seconds of simulated time. */
#define cluster_until(cluster, seconds, condition)                                                 \
    do {                                                                                           \
        uint64_t until_ = (cluster)->now_ns + (uint64_t)((seconds)*1e9);                           \
        while (!(condition)) {                                                                     \
            if ((cluster)->now_ns >= until_)                                                       \
                fail_msg("not in %.0f s: %s (%s)", (double)(seconds), #condition,                  \
                         (cluster)->leader.text);                                                  \
            cluster_tick(cluster);                                                                 \
        }                                                                                          \
    } while (0)

/* Run until the job is @steps further, in any generation. */
void cluster_progress(struct cluster *cluster, unsigned steps, double seconds);

/** cluster_training() - make a cluster whose job has trained for a few steps */
struct cluster *cluster_training(unsigned nodes, unsigned slots);

/** cluster_rank_worker() - return the living worker of @rank in the plan in force */
struct fake_worker *cluster_rank_worker(struct cluster *cluster, unsigned rank);

/** cluster_alive() - return the number of living workers */
unsigned cluster_alive(const struct cluster *cluster);
