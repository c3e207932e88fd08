/*
 * Choose the ranks that skip the next checkpoints because their disks fail.
 *
 * Problem: every replica of a stage has the same state, and each replica writes a part of it. When
 * one node's disk is full or broken, its share fails and so does the checkpoint, although other
 * replicas could write the same bits.
 *
 * Design: a rank reports its failed share in the commit (protocol/step_commit.h). All ranks receive
 * the report in the same step and reach the same decision without further messages. The rank skips
 * the next checkpoint and then tries again. The number of skipped checkpoints doubles with every
 * further failure. The other replicas of the stage divide the share of the skipped rank
 * (worker/checkpoint/share_tensors.h). With copies the whole node skips, because its ranks write to
 * one disk.
 *
 * Invariants: every stage keeps a writer, and rank 0, which commits, writes. When that is
 * impossible no rank skips: the checkpoint fails with an alarm until the disk is repaired. The
 * decision is pure. The state lasts for one generation; a new generation tries every rank.
 */
#pragma once

#include "elastic/plan/plan.h"

#define CHECKPOINT_WRITERS_UNABLE_MAX 8  /* ranks; more failures have another cause than disks */
#define CHECKPOINT_WRITERS_REST_MAX   16 /* checkpoints */

/* Ranks whose own shares of a step failed, as reported by one rank or merged over all ranks. */
struct checkpoint_writers_unable {
    uint64_t count; /* above the maximum: the ranks are not known */
    uint64_t ranks[CHECKPOINT_WRITERS_UNABLE_MAX];
};

/** checkpoint_writers_merge() - add @part of the same step to @sum */
void checkpoint_writers_merge(struct checkpoint_writers_unable *sum,
                              const struct checkpoint_writers_unable *part);

struct checkpoint_writers_resting {
    unsigned rank;
    unsigned rest;         /* checkpoints still to skip */
    unsigned pause;        /* checkpoints to skip after the last failure */
    uint64_t failed_round; /* round of the last failure */
    uint64_t tried_step;   /* first checkpoint written after the last failure; 0: none yet */
};

/* State of one generation; zeros at its start. */
struct checkpoint_writers {
    struct checkpoint_writers_resting list[CHECKPOINT_WRITERS_UNABLE_MAX];
    unsigned count;
    uint64_t round, begun_step;     /* checkpoints begun so far (a step may have several); step of
                                       the last one */
    uint64_t durable_step;          /* newest step with all shares written, as last reported */
    bool left_out[JOB_DEVICES_MAX]; /* by rank: skips the checkpoint begun last */
};

/**
 * checkpoint_writers_hear() - take in the report of a commit
 * @failed_step: the newest step with a failed share; 0: none
 * @unable: the ranks that failed to write it
 * @durable_step: the newest step that all ranks have written
 *
 * Idempotent. A failure of another step than the one begun last is ignored.
 */
void checkpoint_writers_hear(struct checkpoint_writers *writers, uint64_t failed_step,
                             const struct checkpoint_writers_unable *unable, uint64_t durable_step);
/**
 * checkpoint_writers_begin() - begin the checkpoint of @step on all ranks and fill `left_out` with
 * the ranks that skip it
 */
void checkpoint_writers_begin(struct checkpoint_writers *writers, const struct plan *plan,
                              uint64_t step);
