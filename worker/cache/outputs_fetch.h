/*
 * Outputs of frozen layers that other nodes have kept.
 *
 * Problem: an epoch is shuffled, so with N nodes a node has seen only 1/N of the samples of the
 * next step. It computes the others again, though their outputs are on other nodes' disks.
 *
 * Design: a thread copies the records of wanted samples from other nodes' files into this node's
 * (worker/cache/output_file.h), through their firnd (checkpoint/remote/remote.h). The marks of a
 * file tell which records the node has; they are read again every half second. The worker's own
 * thread never waits: a record that arrives too late is computed. The bits are the same: a record
 * counts only if its hash fits this file's key and the sample.
 *
 * A worker asks for at most 250 records a second, so that the firnd of a node with many readers has
 * time for its lease.
 *
 * Growth: an epoch moves the outputs of a node's samples at most once, over the network and onto
 * the disk. At most OUTPUTS_FETCH_NODES nodes are asked. One byte is kept for each sample of each
 * of them, and their marks are read at a megabyte a second. With more nodes, a smaller fraction is
 * found early in the run.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "checkpoint/remote/remote.h"
#include "worker/cache/output_file.h"

#define OUTPUTS_FETCH_NODES 16u

struct outputs_fetch;

struct outputs_fetch_file {
    const char *path; /* of this node's file */
    const char *name; /* the same on each node */
    struct output_file_shape shape;
};

/** outputs_fetch_new() - start to fetch records of @file; @others: without this node; its `stop` is
 * not used. Return: 0; errors of opening the file and of making a thread; -ENOMEM */
int outputs_fetch_new(const struct outputs_fetch_file *file,
                      const struct checkpoint_remote_options *others,
                      struct outputs_fetch **ret_fetch, struct error *error) CHECK_RESULT;
/** outputs_fetch_stop() - fetch nothing more; does not wait for the thread, which may have asked a
 * node that does not answer */
void outputs_fetch_stop(struct outputs_fetch *fetch);
/** outputs_fetch_is_over() - return whether the thread has ended after outputs_fetch_stop() */
bool outputs_fetch_is_over(struct outputs_fetch *fetch);
/** outputs_fetch_free() - stop, wait for the thread (a second if a node does not answer), and free
 * everything; NULL allowed */
void outputs_fetch_free(struct outputs_fetch *fetch);

/** outputs_fetch_begin_step() - forget the records wanted before the last call: it is too late for
 * them */
void outputs_fetch_begin_step(struct outputs_fetch *fetch);

/** outputs_fetch_want() - ask for record @index, which is needed soon; never blocks: it is not
 * fetched if too many are wanted already */
void outputs_fetch_want(struct outputs_fetch *fetch, uint64_t index);

/** outputs_fetch_typical_ms() - return the median time of the first fetches (first_times.h); 0: too
 * few so far */
double outputs_fetch_typical_ms(struct outputs_fetch *fetch);

/** outputs_fetch_count() - return the number of fetched records */
uint64_t outputs_fetch_count(struct outputs_fetch *fetch);
