/*
 * Rank 0 commits a checkpoint from the shares of all ranks, on a thread of its own: it merges their
 * parts, writes the manifest, and gives the folder its final name. Its firnd records the checkpoint
 * in etcd.
 *
 * With copies (worker/checkpoint/replication.h) it also fetches the copies that its own node keeps,
 * waits for the other nodes' keepers, lists the nodes of every share, and is the last to give its
 * folder the final name.
 */
#pragma once

#include <jansson.h>

#include "checkpoint/io/io.h"
#include "elastic/messages/control.h"
#include "worker/checkpoint/replication.h"

struct checkpoint_commit;

struct checkpoint_commit_options {
    const struct io *io;
    const char *folder;          /* of the job; copied */
    const char *metrics_path;    /* of this node (worker/metrics/history.h); "": none; copied */
    const char *restored;        /* the checkpoint that this worker restored; "": none; copied */
    const struct job_spec *spec; /* borrowed until checkpoint_commit_start() returns */
    uint64_t step, generation;
    unsigned world, tensor_count, frozen_layers;
    const bool *left_out;   /* (world,): ranks that wrote no share; copied */
    json_t *state, *config; /* borrowed references */
    uint64_t began_ns, stall_ns;
    struct replication *
        replication; /* borrowed until checkpoint_commit_finish(); NULL: one folder for all nodes */
};

/** checkpoint_commit_start() - start the thread; NULL when memory or threads are short */
struct checkpoint_commit *checkpoint_commit_start(const struct checkpoint_commit_options *options);
/** checkpoint_commit_keepers_told() - note that every rank knows that the shares are durable: from
 * now on the wait for the keepers' receipts has a time limit */
void checkpoint_commit_keepers_told(struct checkpoint_commit *commit);
bool checkpoint_commit_done(const struct checkpoint_commit *commit);
uint64_t checkpoint_commit_step(const struct checkpoint_commit *commit);
uint64_t checkpoint_commit_generation(const struct checkpoint_commit *commit);
/**
 * checkpoint_commit_finish() - wait for the end; frees @commit
 * @ret_warning: fewer copies than requested: the reason as text; else empty
 *
 * Return: 0: *ret_result is to be recorded, and to be freed by the caller; else negative with
 * @error
 */
int checkpoint_commit_finish(struct checkpoint_commit *commit,
                             struct control_checkpoint *ret_result,
                             char ret_warning[CONTROL_TEXT_SIZE], struct error *error);
