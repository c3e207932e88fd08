/*
 * What a node other than rank 0's does for a checkpoint with copies, on a thread of its lowest
 * rank: fetch the copies that it keeps, say so, wait until rank 0 has sealed the manifest, take it
 * over, and give the folder its final name (worker/checkpoint/replication.h).
 */
#pragma once

#include "worker/checkpoint/replication.h"

struct copy_keeper;

/** copy_keeper_start() - @spread: borrowed until copy_keeper_finish(); NULL when memory or threads
 * are short
 */
struct copy_keeper *copy_keeper_start(struct replication *spread);
bool copy_keeper_done(const struct copy_keeper *keeper);
/** copy_keeper_finish() - wait for the end; frees @keeper. Return: 0, or why this node's folder of
 * the checkpoint is not complete */
int copy_keeper_finish(struct copy_keeper *keeper, struct error *error);
