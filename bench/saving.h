/* Checkpoints of a rig's state through the worker's own calls (worker/checkpoint/snapshot.h). */
#pragma once

#include "bench/rig.h"
#include "worker/checkpoint/snapshot.h"

struct saving {
    struct rig *rig;
    struct snapshot *snapshot;
    char folder[300], path[JOB_PATH_SIZE]; /* of checkpoints; of the last one */
    uint64_t size_bytes;
    double write_seconds; /* of the last one, as the worker says */
};

/** saving_open() - @rig is borrowed */
void saving_open(struct saving *saving, struct rig *rig);
void saving_close(struct saving *saving);
/** saving_begin() - the state as it is now; training may go on */
void saving_begin(struct saving *saving);
/** saving_committed() - whether the checkpoint that was begun is on disk; waits until @deadline_ns
 * as snapshot_poll() does. The one before it is removed then */
bool saving_committed(struct saving *saving, uint64_t deadline_ns);
/** saving_save() - begin and wait until it is on disk. Return: seconds */
double saving_save(struct saving *saving);
