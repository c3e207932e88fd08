/*
 * Who sits out the next checkpoints, because its disk fails.
 *
 * Problem: every replica of a stage has the same state, and each writes a part of it. While one
 * node's disk is full or broken its share fails, and the checkpoint with it, though others could
 * write the same bits.
 *
 * Design: who could not write says so in the commit (worker/step/step_commit.h), so all ranks hear
 * it in the same step, and come to the same answer by themselves: it sits out the next checkpoint,
 * then is tried again, and sits out twice as many each time that it fails again. What it would have
 * written is divided among the other replicas of its stage (worker/checkpoint/share_tensors.h).
 * With copies it is the whole node that sits out, for its part is its disk's.
 *
 * Invariants: every stage keeps a writer, and rank 0, which commits, writes. Where that cannot be
 * nobody sits out: the checkpoint is given up, with an alarm, until the disk is mended. Pure, and
 * of one generation: a new one tries everybody.
 */
#pragma once

#include "elastic/plan/plan.h"

#define CHECKPOINT_WRITERS_UNABLE_MAX 8  /* ranks; where more fail it is not their disks */
#define CHECKPOINT_WRITERS_REST_MAX   16 /* checkpoints */

/* Ranks whose own shares of a step failed; what a rank says, or all together. */
struct checkpoint_writers_unable {
    uint64_t count; /* over the maximum: many, which are not known */
    uint64_t ranks[CHECKPOINT_WRITERS_UNABLE_MAX];
};

/** checkpoint_writers_merge() - of the same step */
void checkpoint_writers_merge(struct checkpoint_writers_unable *sum,
                              const struct checkpoint_writers_unable *part);

struct checkpoint_writers_resting {
    unsigned rank;
    unsigned rest;         /* checkpoints that it still sits out */
    unsigned pause;        /* of how many since its last failure */
    uint64_t failed_round; /* of that */
    uint64_t tried_step;   /* after it: the first that it wrote again; 0: none yet */
};

/* Of one generation; zeros at its beginning. */
struct checkpoint_writers {
    struct checkpoint_writers_resting list[CHECKPOINT_WRITERS_UNABLE_MAX];
    unsigned count;
    uint64_t round, begun_step;     /* checkpoints begun so far, of which a step may have several */
    uint64_t durable_step;          /* the newest whose shares all have written, as last heard */
    bool left_out[JOB_DEVICES_MAX]; /* by rank: who sits out the checkpoint begun last */
};

/**
 * checkpoint_writers_hear() - a commit's word: the newest step that failed anywhere (0: none), who
 * could not write it, and the newest step that all have written. The same word again changes
 * nothing, nor does one of another step than was begun last
 */
void checkpoint_writers_hear(struct checkpoint_writers *writers, uint64_t failed_step,
                             const struct checkpoint_writers_unable *unable, uint64_t durable_step);
/** checkpoint_writers_begin() - all ranks begin the checkpoint of @step: `left_out` says who sits
 * it out */
void checkpoint_writers_begin(struct checkpoint_writers *writers, const struct plan *plan,
                              uint64_t step);
