/*
 * Choose the checkpoint records that expire because enough newer ones exist (checkpoint.keep).
 *
 * While a job trains, the transaction that records a new checkpoint also deletes the expired
 * records (daemon/jobs/checkpoint_record.c). The newest verified checkpoint stays in addition to
 * the kept number, so after a job's last checkpoint there is one record too many until that
 * checkpoint has itself been read back. When the job is over or paused, no further checkpoint
 * follows. Then the node that recorded the newest one checks again after each reading, and
 * daemon/jobs/retention_sweep.c removes the files.
 *
 * A checkpoint that is recorded before its next step has committed does not count towards the kept
 * number: if that step diverges, the checkpoint before is needed. So that one stays until the next
 * record; in a job that was refused for good it stays for an operator to choose.
 */
#pragma once

#include "checkpoint/format/folder_marks.h"
#include "daemon/core/mirror.h"
#include "daemon/jobs/job.h"

struct retention_rule {
    uint64_t below_step;   /* ignore checkpoints of this step and later */
    struct keep_rule rule; /* the rule's state after those */
    struct checkpoint_marks (*marks_of)(const void *context, const char *path);
    const void *context;
    uint64_t kept_from;   /* out: oldest step that stays by the number; unchanged: none */
    uint64_t spared_step; /* out: an earlier step that stays as well; unchanged: none */
};

/** retention_rule_choose() - write a deletion of each expired record, at most @capacity
 * @entries: the job's keys "checkpoints/", sorted by step; the operations borrow their keys */
size_t retention_rule_choose(struct retention_rule *retention, const struct mirror_entry *entries,
                             size_t count, struct kv_operation *operations, size_t capacity);

/** retention_rule_sync() - delete the expired records of a job without workers, if this node
 * recorded the newest; does nothing unless records or readings are new */
void retention_rule_sync(struct job *job);
/** retention_rule_stop() - forget the deletion in flight */
void retention_rule_stop(struct job *job);
