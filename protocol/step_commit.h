/*
 * The commit of a step: each rank's part of the step record goes up the tree of ranks, and the
 * complete record comes down. A rank sends its part only when it holds its stage's reduced
 * gradients and its children have sent their parts, so the complete record proves that all ranks
 * hold.
 *
 * Replicas of a stage must have equal records and equal state (worker/state/state_digest.h). If two
 * ranks differ, no rank commits: the root informs all of them, and the dispute finds the wrong one
 * (protocol/dispute.h).
 *
 * The messages carry more: the newest durable checkpoint, whether all ranks read the same data, and
 * downwards the root's decision to switch to another generation after this step. They also carry
 * the compute times of the ranks: upwards all of them, for the root to find stragglers, and
 * downwards the slowest of each stage, for the metrics of every node.
 */
#pragma once

#include "base/error.h"
#include "elastic/copies/checkpoint_writers.h"
#include "elastic/plan/plan.h"
#include "elastic/plan/straggler.h"
#include "elastic/step/step_record.h"
#include "protocol/dispute.h"
#include "protocol/readiness.h"
#include "protocol/tree_round.h"
#include "protocol/unit_digests.h"

/* The part of one rank. */
struct step_commit_up {
    uint64_t data_digest;        /* low word of dataset_digest() */
    uint64_t checkpoint_durable; /* the newest step durable on all ranks of the subtree */
    uint64_t checkpoint_failed;  /* the newest step of which a share failed on one of them; 0:
                                    none */
    struct checkpoint_writers_unable unable; /* the ranks that could not write that step */
    bool checkpoint_busy;                    /* one of them cannot begin another checkpoint yet */
    struct readiness readiness;
    uint64_t busy_ns; /* own compute time of this rank in the step; 0: not known */
    struct unit_digests
        digests; /* of the state before the step; when closing, after the last step */
    struct step_record record;
};

/* The part of a subtree of ranks, which goes up. */
struct step_commit_part {
    struct step_commit_up up;
    enum dispute_about dispute;        /* found in the subtree */
    uint64_t busy_ns[JOB_DEVICES_MAX]; /* of each rank of the layout; 0: not of the subtree, or
                                          unknown */
};

/* The answer to all ranks. */
struct step_commit_down {
    enum dispute_about dispute; /* unless DISPUTE_NOTHING, no other member is valid */
    uint64_t switch_generation; /* 0: none */
    uint64_t checkpoint_durable, checkpoint_failed;        /* over all ranks */
    struct checkpoint_writers_unable unable;               /* the same */
    bool checkpoint_busy;                                  /* the same */
    uint64_t busy_ns[JOB_DEVICES_MAX];                     /* of each rank; at the root only */
    struct straggler_stage slowest[STEP_RECORD_UNITS_MAX]; /* of each stage; not when closing */
    struct step_record record;
};

/* The content of one round on one rank: large, and most of it is not used. */
struct step_commit {
    const struct plan_layout *layout;
    unsigned rank;
    bool closing;
    uint64_t switch_generation;    /* on the root: step_commit_switch(); 0: none */
    struct step_commit_part sum;   /* of this rank and its subtree */
    struct step_commit_part child; /* of the child received last */
    struct step_commit_down down;  /* valid when the round is done; its dispute always */
    struct error *error;           /* names the nodes of -EILSEQ */
};

/**
 * step_commit_begin() - begin the round of one rank of @layout
 * @closing: a round after the last step: records may be incomplete, and times are not sent
 * @layout, @error: borrowed until the end of the round
 *
 * Errors of the round (protocol/tree_round.h): -EILSEQ: two ranks read different data (@error names
 * their nodes); -EBADMSG; -ENOMEM. When the round is done or has failed, commit->down.dispute is a
 * dispute found in the subtree of this rank; after a failure not all ranks learn of it.
 */
void step_commit_begin(struct step_commit *commit, struct tree_round *round,
                       const struct plan_layout *layout, unsigned rank, bool closing,
                       const struct step_commit_up *mine, struct error *error);

/**
 * step_commit_switch() - on the root, after it has the parts of all ranks and before it decides:
 * begin the generation of @next after this step, if all ranks that it needs are ready
 * @plan: in force; @next: may be NULL
 */
void step_commit_switch(struct step_commit *commit, const struct plan *plan,
                        const struct plan *next);
