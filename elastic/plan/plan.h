/*
 * A plan: one generation of one job. Who computes what, where state comes from, and why.
 *
 * Ranks: workers [0, worker_count) compute; rank = replica * stage_count + stage. Workers
 * [worker_count, worker_count + donor_count) only hand over state and then leave. A plan with
 * worker_count 0 ends the generation before it: everybody checkpoints at the switch (when
 * `planned`) and leaves; that is how a job is paused and cancelled.
 *
 * Shadows: a stage whose replicas are all on one node may have a worker of another node that keeps
 * a copy of its state beside its own, so that no node's loss takes the only one
 * (worker/step/shadow.h).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "elastic/job/job_spec.h"
#include "elastic/step/step_record.h"

#define PLAN_KEY_HEX_SIZE    65
#define PLAN_ARITHMETIC_SIZE 128 /* what a node computes with: backend, library, processor */
#define PLAN_REASON_SIZE     256
#define PLAN_LINKS_MAX       255                   /* a byte of every frame */
#define PLAN_RANKS_MAX       (2 * JOB_DEVICES_MAX) /* workers and donors */
#define PLAN_SLOTS_MAX       64                    /* of one node: REPORT_WORKERS_MAX */
#define PLAN_MOVES_MAX       (1u << 18)
#define PLAN_SHADOWS_MAX     8 /* that one worker keeps */
#define PLAN_STORES_MAX      4096
#define PLAN_COPIES_MAX      8 /* of one share of a checkpoint */
#define PLAN_SLOW_MAX        16

enum plan_source {
    PLAN_SOURCE_FRESH,      /* initialize from the seed: step 0 */
    PLAN_SOURCE_MEMORY,     /* from workers that hold it: moves */
    PLAN_SOURCE_CHECKPOINT, /* read restore_path */
};

enum plan_reason {
    PLAN_REASON_START,
    PLAN_REASON_FREEZE,
    PLAN_REASON_SCALE,
    PLAN_REASON_JOIN,
    PLAN_REASON_DRAIN,
    PLAN_REASON_FAILURE,
    PLAN_REASON_PAUSE,
    PLAN_REASON_RESUME,
    PLAN_REASON_CANCEL,
    PLAN_REASON_REFUSED,   /* no node can run the job: reason_text is the word of one */
    PLAN_REASON_STRAGGLER, /* a worker computes slower than its peers, or no more */
    PLAN_REASON_UPGRADE,   /* to workers of another link protocol, by a checkpoint */
};

struct plan_worker {
    char node[NAME_SIZE];
    unsigned slot;
    char address[ADDRESS_SIZE]; /* of its link listener */
    uint64_t instance;          /* 0: any; else the process that holds state (hello's instance) */
};

/* A node that keeps files of checkpoints, see elastic/copies/copies.h. */
struct plan_store {
    char node[NAME_SIZE];
    char http[ADDRESS_SIZE]; /* of its firnd */
    char domain[NAME_SIZE];  /* nodes of one domain may fail together */
};

/*
 * A slot that was found slower than its peers (elastic/leader/leader_slow.h), in the plan or left
 * out of it. Plans carry this on, so that the next leader knows it, too.
 */
struct plan_slow {
    char node[NAME_SIZE];
    unsigned slot;
    uint64_t incarnation; /* of its firnd: a new one starts with a clean slate */
    double speed;         /* of that of its peers; 1: it is on probation */
    unsigned times;       /* how often it was found slow, from 1 */
};

struct plan_move {
    unsigned unit;
    unsigned from_rank, to_rank; /* ranks of this plan, donors included */
};

/* @rank keeps a copy of @stage; its gradients come from the stage's worker of replica 0. */
struct plan_shadow {
    unsigned stage, rank;
};

/* Where memory is short, sublayers keep their input alone and compute the rest again for backward:
 * the same bits, for the time of one more forward. */
enum plan_recompute {
    PLAN_RECOMPUTE_NONE,
    PLAN_RECOMPUTE_ATTENTION,
    PLAN_RECOMPUTE_FULL, /* attention and MLP */
    PLAN_RECOMPUTES
};

struct plan {
    char job[NAME_SIZE];
    uint64_t generation; /* from 1 */
    uint64_t follows;    /* the generation that was in force when it was made, 0: none; of a planned
                            one: that it takes over from */
    enum plan_reason reason;
    char reason_text[PLAN_REASON_SIZE]; /* for people: "node b lost: 6 slots -> 4" */
    bool planned;    /* takes over at a step boundary of the generation before; else at once */
    bool breaks_off; /* of a planned one: nobody lets it begin, so whoever of the generation before
                        hears of it breaks off, and what they hold decides (leader_supersede.c) */
    char key[PLAN_KEY_HEX_SIZE]; /* of the links, 32 random bytes in hexadecimal */

    char arithmetic[PLAN_ARITHMETIC_SIZE]; /* of all its nodes; "": mixed, or not known */
    unsigned links; /* the link protocol that its workers speak; 0: not said */
    unsigned stage_count, replica_count;
    unsigned worker_count, donor_count;
    struct plan_worker *workers;  /* worker_count + donor_count */
    unsigned *stage_first_unit;   /* stage_count + 1; the last is the unit count */
    unsigned *replica_first_lane; /* replica_count + 1; the last is the lane count */
    unsigned shadow_count;
    struct plan_shadow *shadows;   /* at most one a stage, stages ascending */
    enum plan_recompute recompute; /* of all stages */
    unsigned frozen_layers;        /* what the planner assumed; the truth is in the state */

    enum plan_source source;
    uint64_t resume_step; /* committed steps the generation starts from; of a planned switch: at
                             least this */
    bool disputed; /* goes back because replicas held different state: what was written of the steps
                      after resume_step may be wrong */
    char restore_path[JOB_PATH_SIZE]; /* PLAN_SOURCE_CHECKPOINT: the checkpoint's folder */
    bool has_commit; /* survivors at HOLD(commit.step) apply it with these norms first */
    struct step_record commit;
    unsigned move_count;
    struct plan_move *moves;
    /* Metrics history goes from the first (an old member) to each node that has none: ranks. */
    unsigned history_count;
    struct plan_move *histories; /* unit unused */

    /* Only of jobs with checkpoint.copies above 1: */
    unsigned copies; /* of each share of a checkpoint; 0: checkpoints lie in one shared folder */
    unsigned store_count;
    struct plan_store *stores;
    char restore_sha256[65]; /* PLAN_SOURCE_CHECKPOINT: of the manifest, when its files lie with the
                                stores; "": all of it is at restore_path */

    double predicted_step_seconds; /* what the planner expects */

    /* Nodes of it have lost each other and none can be done without
     * (elastic/leader/leader_netsplit.h): silent hosts are waited for as long as anybody else, for
     * the pair may find each other. */
    bool patient;

    unsigned slow_count;
    struct plan_slow slow[PLAN_SLOW_MAX];

    unsigned shares; /* by plan_share(): owners beside the first */
};

/** plan_free() - contents and plan, once for plan_new() and for each plan_share(); NULL allowed.
 * Plans are heap objects because of their arrays. */
void plan_free(struct plan *plan);
struct plan *plan_new(void); /* zeroed; NULL when memory is short */
/** plan_share() - the same plan once more, for somebody who only reads it, as all do from now on: a
 * copy of one with a thousand workers takes longer than anything else that is done with it */
struct plan *plan_share(const struct plan *plan);
struct plan *plan_copy(const struct plan *plan);

/**
 * plan_check() - every invariant that a plan must have before anyone follows it
 *
 * Ranges cover units and lanes without gap or overlap; no slot has two ranks; a shadow is a worker
 * of another stage on another node; moves end at a worker that owns or shadows the unit, once each,
 * and come from another rank; a commit is complete and is the step
 * the generation resumes from; moves and commits only with PLAN_SOURCE_MEMORY.
 * Return: 0, or -EINVAL with the reason; -ENOMEM.
 */
int plan_check(const struct plan *plan, struct error *error) CHECK_RESULT;

/** plan_encode() - new reference, NULL when memory is short; the workers are packed
 * (elastic/plan/plan_workers.h) */
json_t *plan_encode(const struct plan *plan);
/** plan_describe() - the same for people and their programs: workers one by one, and without the
 * key of the links, with which anybody could join them */
json_t *plan_describe(const struct plan *plan);
/** plan_decode() - bounded, and passes plan_check(); -EINVAL names the key; -ENOMEM */
int plan_decode(const json_t *tree, struct plan **ret_plan, struct error *error) CHECK_RESULT;

/** plan_key_bytes() - a plan's key of links as bytes; false when it is malformed */
#define PLAN_KEY_SIZE 32
bool plan_key_bytes(const char *key, uint8_t ret_key[PLAN_KEY_SIZE]);

/* Words for people and for JSON: "failure", "memory". */
const char *plan_reason_word(enum plan_reason reason);
const char *plan_source_word(enum plan_source source);
const char *plan_recompute_word(enum plan_recompute recompute);

static inline unsigned plan_rank(const struct plan *plan, unsigned replica, unsigned stage)
{
    return replica * plan->stage_count + stage;
}
static inline unsigned plan_unit_count(const struct plan *plan) /* 0 for an empty plan */
{
    return plan->stage_count == 0 ? 0 : plan->stage_first_unit[plan->stage_count];
}
static inline unsigned plan_lane_count(const struct plan *plan) /* 0 for an empty plan */
{
    return plan->replica_count == 0 ? 0 : plan->replica_first_lane[plan->replica_count];
}
/** plan_find() - rank of (node, slot), or -1 */
int plan_find(const struct plan *plan, const char *node, unsigned slot);
/** plan_find_node() - the lowest rank on @node, workers before donors, or -1 */
int plan_find_node(const struct plan *plan, const char *node);

/** plan_lone_node() - the node that has all workers: nobody elsewhere is needed for a commit, so
 * nobody can withhold it; NULL: there is none */
const char *plan_lone_node(const struct plan *plan);

/** plan_shadow_of() - who keeps the copy of @stage, or -1 */
int plan_shadow_of(const struct plan *plan, unsigned stage);

/** plan_keeps() - @rank computes @unit or keeps a copy of it; a donor keeps nothing */
bool plan_keeps(const struct plan *plan, unsigned rank, unsigned unit);

/**
 * plan_peers() - the ranks that @rank has links with, ascending: pipeline neighbours, the other end
 * of its replica when it is one end (a tied token table), the replicas
 * of its stage, the shadow of its stage and the workers whose shadow it is, its parent and children
 * in the commit tree, and the two ends of its moves and histories
 * @ret_ranks: room for worker_count + donor_count
 */
unsigned plan_peers(const struct plan *plan, unsigned rank, unsigned *ret_ranks);

/* The commit exchange runs along a tree over ranks [0, worker_count) with this fan-out, root 0. */
#define PLAN_TREE_FAN 8
static inline unsigned plan_tree_parent(unsigned rank) /* of a rank that is not the root */
{
    return (rank - 1) / PLAN_TREE_FAN;
}
/** plan_tree_children() - children of @rank are [*ret_first, *ret_first + the result) */
static inline unsigned plan_tree_children(const struct plan *plan, unsigned rank,
                                          unsigned *ret_first)
{
    unsigned first = rank * PLAN_TREE_FAN + 1;
    *ret_first = first;
    if (first >= plan->worker_count)
        return 0;
    unsigned left = plan->worker_count - first;
    return left < PLAN_TREE_FAN ? left : PLAN_TREE_FAN;
}
