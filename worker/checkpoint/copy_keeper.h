/*
 * The part of a node other than rank 0's in a checkpoint with copies, on a thread of its lowest
 * rank: fetch the copies that the node keeps, write a receipt, wait until rank 0 has sealed the
 * manifest, fetch it, and give the folder its final name (worker/checkpoint/replication.h).
 */
#pragma once

#include "worker/checkpoint/replication.h"

struct copy_keeper;

/** copy_keeper_start() - start the thread; NULL when memory or threads are short
 * @replication: borrowed until copy_keeper_finish()
 */
struct copy_keeper *copy_keeper_start(struct replication *replication);
bool copy_keeper_done(const struct copy_keeper *keeper);
/** copy_keeper_finish() - wait for the end; frees @keeper
 *
 * Return: 0; negative with @error: this node's folder of the checkpoint is not complete */
int copy_keeper_finish(struct copy_keeper *keeper, struct error *error);
