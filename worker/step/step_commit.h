/*
 * The commit of a step: each rank's part of the step record goes up a tree of ranks, the complete
 * record comes down. A rank sends up only when it holds its stage's reduced gradients and its
 * children have sent their parts, so the record that comes down proves that all ranks hold.
 *
 * Replicas of a stage must have equal records and equal state (worker/state/state_digest.h). Where
 * two ranks differ no rank commits: the root informs all of them, and the dispute finds the wrong
 * one (worker/step/dispute.h).
 *
 * The messages carry more: how far checkpoints are durable, whether all ranks read the same data,
 * and downwards the root's decision to switch to another generation after this step. They also
 * carry the compute times of the ranks: upwards all of them, for the root to find stragglers, and
 * downwards the slowest of each stage, for the metrics of every node.
 */
#pragma once

#include "comm/mesh/mesh.h"
#include "elastic/copies/checkpoint_writers.h"
#include "elastic/messages/straggler.h"
#include "elastic/plan/plan.h"
#include "elastic/step/step_record.h"
#include "worker/state/state_digest.h"
#include "worker/step/dispute.h"

/*
 * The ranks that have the next plan. A rank without it cannot follow a switch: its firnd is away,
 * so the switch waits while training continues.
 */
#define STEP_COMMIT_LACKING_MAX 8
struct step_commit_readiness {
    uint64_t announced_min, announced_max; /* newest plan, over the ranks that have a newer one */
    uint64_t lacking_count; /* ranks that have no newer plan; over the maximum: many */
    uint64_t lacking[STEP_COMMIT_LACKING_MAX];
};

struct step_commit_up {
    uint64_t data_digest;        /* low word of dataset_digest() */
    uint64_t checkpoint_durable; /* the newest step durable on all ranks of the subtree */
    uint64_t checkpoint_failed;  /* the newest step whose share failed on one of them; 0: none */
    struct checkpoint_writers_unable unable; /* the ranks that could not write that step */
    bool checkpoint_busy;                    /* one of them cannot begin another checkpoint yet */
    struct step_commit_readiness readiness;
    uint64_t busy_ns; /* own compute time of this rank in the step; 0: not known */
    struct unit_digests
        digests; /* of the state before the step; when closing, after the last step */
    struct step_record record;
};

struct step_commit_down {
    enum dispute_about dispute; /* unless DISPUTE_NOTHING, no other member is valid */
    uint64_t switch_generation; /* 0: none */
    uint64_t checkpoint_durable, checkpoint_failed;        /* over all ranks */
    struct checkpoint_writers_unable unable;               /* the same */
    bool checkpoint_busy;                                  /* the same */
    struct step_commit_readiness readiness;                /* over all ranks; at the root only */
    uint64_t busy_ns[JOB_DEVICES_MAX];                     /* of each rank; at the root only */
    struct straggler_stage slowest[STEP_RECORD_UNITS_MAX]; /* of each stage; not when closing */
    struct step_record record;
};

/* Decisions of the root; ignored elsewhere. */
struct step_commit_root {
    uint64_t switch_generation; /* to begin after this step; 0: none */
    /* Called when all ranks hold, before any rank learns it; negative ends the round. NULL: none */
    int (*may_commit)(void *context);
    void *context;
};

/** step_commit_readiness_init() - init for one rank: @announced is the newest plan that it has
 * received, 0: none is newer than the plan in force */
void step_commit_readiness_init(struct step_commit_readiness *readiness, unsigned rank,
                                uint64_t announced);
/** step_commit_ready() - true if every rank of @layout that @next needs has @next */
bool step_commit_ready(const struct step_commit_readiness *readiness,
                       const struct plan_layout *layout, const struct plan *next);

#define STEP_COMMIT_DISPUTED 1

/**
 * step_commit_run() - run one round among the workers of @plan
 * @closing: a round after the last step: records may be incomplete, and times are not sent
 *
 * Return: 0; STEP_COMMIT_DISPUTED, the same at all ranks: replicas differ in @ret_down->dispute;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed), the errors of may_commit(); -EILSEQ: two ranks read
 * different data (@error names their nodes); -EBADMSG
 *
 * On a negative result only @ret_down->dispute is valid: a dispute that was found in the subtree of
 * this rank, of which not all ranks will learn.
 */
int step_commit_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                    const struct step_commit_up *mine, const struct step_commit_root *root,
                    struct step_commit_down *ret_down, struct error *error) CHECK_RESULT;
