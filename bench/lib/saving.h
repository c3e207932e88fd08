/* Write checkpoints of a rig's state through the worker's own calls (worker/checkpoint/snapshot.h).
 */
#pragma once

#include "bench/lib/rig.h"
#include "worker/checkpoint/snapshot.h"

struct saving {
    struct rig *rig;
    struct snapshot *snapshot;
    char folder[300], path[JOB_PATH_SIZE]; /* of all checkpoints; of the last one */
    uint64_t size_bytes;
    double write_seconds; /* of the last one, as the worker reports */
};

/** saving_open() - prepare checkpoints of @rig, which is borrowed */
void saving_open(struct saving *saving, struct rig *rig);
void saving_close(struct saving *saving);
/** saving_begin() - begin a checkpoint of the current state; training may continue */
void saving_begin(struct saving *saving);
/** saving_committed() - return whether the checkpoint is committed on disk; wait until @deadline_ns
 * as snapshot_poll() does. On commit, remove the previous checkpoint */
bool saving_committed(struct saving *saving, uint64_t deadline_ns);
/** saving_save() - begin a checkpoint and wait until it is on disk. Return: seconds */
double saving_save(struct saving *saving);
