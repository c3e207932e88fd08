/*
 * Checkpoints of the sample (sample.h) on two nodes, a and b, that keep a copy of each other's
 * share: every step of checkpoint/replicate/copy_place.h in order, on their own folders.
 */
#pragma once

#include <stdint.h>

#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_place.h"
#include "checkpoint/replicate/receive.h"
#include "checkpoint/write/folder_commit.h"
#include "lib/checkpoint/file_server.h"
#include "lib/checkpoint/sample.h"

struct two_nodes {
    char folders[2][64];
    struct file_server servers[2];
    struct checkpoint_remote *remote;
    char sha256[65]; /* of the last saved manifest */
};

/** two_nodes_start() - make the folders of both nodes and serve them */
void two_nodes_start(struct two_nodes *nodes);

/** two_nodes_stop() - stop the servers and remove the folders */
void two_nodes_stop(struct two_nodes *nodes);

/** two_nodes_local() - describe the folder of @node as a receiver of @step */
struct checkpoint_local two_nodes_local(const struct two_nodes *nodes, unsigned node,
                                        const struct io *io, uint64_t step);

/* Save a checkpoint: b's files go through @io; a, the coordinator, uses threads. */
int two_nodes_save(struct two_nodes *nodes, const struct io *io, uint64_t step,
                   struct error *error);
