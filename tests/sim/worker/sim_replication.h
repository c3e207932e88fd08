/*
 * Make a checkpoint with copies: the work of worker/checkpoint/checkpoint_commit.c on rank 0 and of
 * worker/checkpoint/copy_keeper.c on the lowest rank of every other node, each on a thread beside
 * its worker's steps. Nodes read each other's marks through their daemons at intervals, until the
 * marks have the expected content.
 */
#pragma once

#include "sim/worker/sim_worker.h"

struct sim_replication; /* one node's part in one checkpoint */

/** sim_replication_start() - Start for the step of the worker's newest share */
struct sim_replication *sim_replication_start(struct sim_worker *worker);
/** sim_replication_keepers_told() - A commit has told all ranks: from now on limit the wait for
 * receipts; NULL allowed */
void sim_replication_keepers_told(struct sim_replication *replication);
/** sim_replication_done() - Return whether the work has ended; then *ret_status is its result: 0,
 * or negative */
bool sim_replication_done(const struct sim_replication *replication, int *ret_status);
/** sim_replication_shares() - Return, on rank 0 when done, the places of all copies as the record
 * has them; to be freed */
char *sim_replication_shares(const struct sim_replication *replication);
/** sim_replication_stop() - Give up the work and free it; NULL allowed */
void sim_replication_stop(struct sim_replication *replication);

/** sim_serves() - Return whether the daemon of @node serves a file to @to */
bool sim_serves(const struct sim *sim, unsigned node, unsigned to);
