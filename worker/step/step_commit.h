/*
 * The commit of a step: everybody's part of the step record goes up a tree of ranks, the complete
 * record comes down. A rank sends up only when it holds its stage's reduced gradients
 * and its children have sent theirs, so the record that comes down proves that all hold.
 *
 * Replicas of a stage must know the same of it, and hold the same (worker/state/state_digest.h).
 * Where two ranks differ nobody commits: all learn so from the root, and who is wrong is another
 * question (worker/step/dispute.h).
 *
 * Small facts ride along: how far checkpoints are durable, whether all ranks read the same data,
 * and downwards the root's decision to switch to another generation after this step. So do the
 * times that everybody computed: up all of them, for the root to judge who is a straggler, and down
 * the slowest of each stage, for the metrics of every node.
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
 * Who has the plan that comes next. A rank without it cannot follow a switch: its firnd is away, so
 * the switch waits while training goes on.
 */
#define STEP_COMMIT_LACKING_MAX 8
struct step_commit_readiness {
    uint64_t announced_min, announced_max; /* newest plan of those ranks that have a newer one */
    uint64_t lacking_count;                /* ranks that have none; over the maximum: many */
    uint64_t lacking[STEP_COMMIT_LACKING_MAX];
};

struct step_commit_up {
    uint64_t data_digest;        /* low word of dataset_digest() */
    uint64_t checkpoint_durable; /* the newest step whose share is durable on all ranks below */
    uint64_t checkpoint_failed;  /* the newest step whose share failed on any of them; 0: none */
    struct checkpoint_writers_unable unable; /* to write that step */
    bool checkpoint_busy;                    /* one of them cannot begin another checkpoint yet */
    struct step_commit_readiness readiness;
    uint64_t busy_ns; /* what this rank computed by itself in the step; 0: not known */
    struct unit_digests
        digests; /* of the state before the step; when closing, after the last one */
    struct step_record record;
};

struct step_commit_down {
    enum dispute_about dispute;                            /* then nothing else counts */
    uint64_t switch_generation;                            /* 0: go on */
    uint64_t checkpoint_durable, checkpoint_failed;        /* over all ranks */
    struct checkpoint_writers_unable unable;               /* the same */
    bool checkpoint_busy;                                  /* the same */
    struct step_commit_readiness readiness;                /* over all ranks; at the root only */
    uint64_t busy_ns[JOB_DEVICES_MAX];                     /* of each rank; at the root only */
    struct straggler_stage slowest[STEP_RECORD_UNITS_MAX]; /* of each stage; not when closing */
    struct step_record record;
};

/* What the root decides; ignored elsewhere. */
struct step_commit_root {
    uint64_t switch_generation; /* to begin after this step; 0: go on */
    /* Asked when all hold and nobody has been told of it; negative ends the round. NULL: nobody */
    int (*may_commit)(void *context);
    void *context;
};

/** step_commit_readiness_init() - of one rank: @announced is the newest plan that it has heard of,
 * 0: none is newer than the one in force */
void step_commit_readiness_init(struct step_commit_readiness *readiness, unsigned rank,
                                uint64_t announced);
/** step_commit_ready() - everybody whom @next needs of @plan, whose workers the ranks are, has
 * @next
 */
bool step_commit_ready(const struct step_commit_readiness *readiness, const struct plan *plan,
                       const struct plan *next);

#define STEP_COMMIT_DISPUTED 1

/**
 * step_commit_run() - one round among the workers of @plan
 * @closing: a round after the last step: records are empty, only the small facts count
 *
 * Return: 0; STEP_COMMIT_DISPUTED, the same at all ranks: replicas differ in what @ret_down says;
 * -ECONNRESET, -ETIMEDOUT (the mesh failed), what may_commit() returned; -EILSEQ: two ranks read
 * different data (@error says which); -EBADMSG
 *
 * Where that is negative nothing of @ret_down counts but its dispute, which was seen here, or
 * further down the tree: not all will hear of it.
 */
int step_commit_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                    const struct step_commit_up *mine, const struct step_commit_root *root,
                    struct step_commit_down *ret_down, struct error *error) CHECK_RESULT;
