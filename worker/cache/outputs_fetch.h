/*
 * Outputs of frozen layers that other nodes have kept.
 *
 * Problem: an epoch is shuffled, so with N nodes a node has seen only an N-th of the samples of the
 * next step, and computes the others again, though their outputs are on the other nodes' disks.
 *
 * Design: a thread copies the records of samples that are wanted from other nodes' files into this
 * node's (worker/cache/output_file.h), through the firnd there (checkpoint/remote/remote.h). The
 * files' marks tell which node has which; they are read again every half second. The worker's own
 * thread never waits: a record that is not here in time is computed. The bits are the same:
 * a record counts only if its hash fits this file's key and the sample.
 *
 * A worker asks for at most 250 records a second, so that the firnd of a node with many readers has
 * time for its lease.
 *
 * What grows: an epoch moves at most the outputs of a node's share of the samples once, over the
 * network and onto the disk. At most OUTPUTS_FETCH_NODES nodes are asked, and a byte is kept for
 * each sample of each of them; their marks are read at a megabyte a second. With more nodes a
 * smaller share is found, as long as the run is young.
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
/** outputs_fetch_is_over() - return whether the thread is through after outputs_fetch_stop() */
bool outputs_fetch_is_over(struct outputs_fetch *fetch);
/** outputs_fetch_free() - stop, wait for the thread (a second, where a node does not answer), and
 * free everything; NULL allowed */
void outputs_fetch_free(struct outputs_fetch *fetch);

/** outputs_fetch_begin_step() - forget records that were wanted before the last call: too late */
void outputs_fetch_begin_step(struct outputs_fetch *fetch);

/** outputs_fetch_want() - record @index is needed soon; never blocks: where too many are wanted
 * already, it is not fetched */
void outputs_fetch_want(struct outputs_fetch *fetch, uint64_t index);

/** outputs_fetch_typical_ms() - return the median time of the first fetches (first_times.h); 0:
 * there were not as many */
double outputs_fetch_typical_ms(struct outputs_fetch *fetch);

/** outputs_fetch_count() - return the number of records that were fetched */
uint64_t outputs_fetch_count(struct outputs_fetch *fetch);
