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

#define WRITERS_UNABLE_MAX 8  /* ranks; where more fail it is not their disks */
#define WRITERS_REST_MAX   16 /* checkpoints */

/* Ranks whose own shares of a step failed; what a rank says, or all together. */
struct writers_unable {
    uint64_t count; /* over the maximum: many, which are not known */
    uint64_t ranks[WRITERS_UNABLE_MAX];
};

/** writers_merge() - of the same step */
void writers_merge(struct writers_unable *sum, const struct writers_unable *part);

struct writers_resting {
    unsigned rank;
    unsigned rest;         /* checkpoints that it still sits out */
    unsigned pause;        /* of how many since its last failure */
    uint64_t failed_round; /* of that */
    uint64_t tried_step;   /* after it: the first that it wrote again; 0: none yet */
};

/* Of one generation; zeros at its beginning. */
struct writers {
    struct writers_resting list[WRITERS_UNABLE_MAX];
    unsigned count;
    uint64_t round, begun_step;     /* checkpoints begun so far, of which a step may have several */
    uint64_t durable_step;          /* the newest whose shares all have written, as last heard */
    bool left_out[JOB_DEVICES_MAX]; /* by rank: who sits out the checkpoint begun last */
};

/**
 * writers_hear() - a commit's word: the newest step that failed anywhere (0: none), who could not
 * write it, and the newest step that all have written. The same word again changes nothing, nor
 * does one of another step than was begun last
 */
void writers_hear(struct writers *writers, uint64_t failed_step,
                  const struct writers_unable *unable, uint64_t durable_step);
/** writers_begin() - all ranks begin the checkpoint of @step: `left_out` says who sits it out */
void writers_begin(struct writers *writers, const struct plan *plan, uint64_t step);
