/*
 * Which checkpoints' records go because enough newer ones are there (checkpoint.keep).
 *
 * While a job trains, the record of a new checkpoint takes the old ones away in its own transaction
 * (daemon/jobs/checkpoint_record.c). The newest that has been read back stays on top of their
 * number, so the last checkpoint of a job leaves one too many until it has been read back itself.
 * No further one comes when the job is over or paused: then the node that has recorded the newest
 * looks again after each reading, and daemon/jobs/retention.c removes the files.
 */
#pragma once

#include "checkpoint/format/folder_marks.h"
#include "daemon/jobs/job.h"

struct expiring {
    uint64_t below_step;   /* checkpoints of this step and later ones are not looked at */
    struct keep_rule rule; /* what it has seen of those */
    uint64_t kept_from;    /* out: the oldest that stays by its number; unchanged: none */
    uint64_t spared_step;  /* out: one before it that stays; unchanged: none */
};

/** expiring_choose() - write a deletion of each record that goes, at most @capacity
 * @entries: of the job's "checkpoints/", which sort by step; the operations borrow their keys
 */
size_t expiring_choose(struct expiring *expiring, const struct mirror_entry *entries, size_t count,
                       struct kv_operation *operations, size_t capacity);

/** expiring_sync() - delete the records that are too many of a job without workers, where this node
 * has recorded the newest; looks only when records or readings are new */
void expiring_sync(struct job *job);
/** expiring_stop() - forget the deletion in flight */
void expiring_stop(struct job *job);
