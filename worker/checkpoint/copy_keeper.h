/*
 * What a node other than rank 0's does for a checkpoint with copies, on a thread of its lowest
 * rank: fetch the copies that it keeps, say so, wait until rank 0 has sealed the manifest, take it
 * over, and give the folder its final name (worker/checkpoint/replication.h).
 */
#pragma once

#include "worker/checkpoint/replication.h"

struct keeper;

/** keeper_start() - @spread: borrowed until keeper_finish(); NULL when memory or threads are short
 */
struct keeper *keeper_start(struct spread *spread);
bool keeper_done(const struct keeper *keeper);
/** keeper_finish() - wait for the end; frees @keeper. Return: 0, or why this node's folder of the
 * checkpoint is not complete */
int keeper_finish(struct keeper *keeper, struct error *error);
