/*
 * A plan: one generation of one job. It has the work of each rank, the source of the state, and the
 * reason of the change.
 *
 * Ranks: workers [0, worker_count) compute; rank = replica * stage_count + stage. Workers
 * [worker_count, worker_count + donor_count) only hand over state and then leave. A plan with
 * worker_count 0 ends the previous generation: every worker checkpoints at the switch (when
 * `planned`) and leaves. A job is paused and cancelled this way.
 *
 * Shadows: a stage whose replicas are all on one node may have a worker of another node that keeps
 * a copy of its state in addition to its own, so that the loss of one node never destroys the only
 * copy (worker/step/shadow.h).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"
#include "elastic/job/job_elasticity.h"
#include "elastic/job/job_text.h"
#include "elastic/step/step_record.h"

#define PLAN_KEY_HEX_SIZE    65
#define PLAN_ARITHMETIC_SIZE 128 /* arithmetic of a node: backend, library, processor */
#define PLAN_REASON_SIZE     256
#define PLAN_LINKS_MAX       255                   /* one byte of every frame */
#define PLAN_RANKS_MAX       (2 * JOB_DEVICES_MAX) /* workers and donors */
#define PLAN_SLOTS_MAX       64                    /* per node: REPORT_WORKERS_MAX */
#define PLAN_MOVES_MAX       (1u << 18)
#define PLAN_SHADOWS_MAX     8 /* copies kept by one worker */
#define PLAN_STORES_MAX      4096
#define PLAN_COPIES_MAX      8 /* of one share of a checkpoint */
#define PLAN_SLOW_MAX        16

enum plan_source {
    PLAN_SOURCE_FRESH,      /* initialize from the seed: step 0 */
    PLAN_SOURCE_MEMORY,     /* from workers that hold it, by moves */
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
    PLAN_REASON_REFUSED,   /* no node can run the job: reason_text is from one of them */
    PLAN_REASON_STRAGGLER, /* a worker became slower than its peers, or recovered */
    PLAN_REASON_UPGRADE,   /* to workers of another link protocol, through a checkpoint */
};

struct plan_worker {
    char node[NAME_SIZE];
    unsigned slot;
    char address[ADDRESS_SIZE]; /* of its link listener */
    uint64_t instance;          /* 0: any process; else the one that holds state (from hello) */
};

/* A node that keeps files of checkpoints, see elastic/copies/copies.h. */
struct plan_store {
    char node[NAME_SIZE];
    char http[ADDRESS_SIZE]; /* of its firnd */
    char domain[NAME_SIZE];  /* nodes of one domain may fail together */
};

/*
 * A slot that was found slower than its peers (elastic/leader/leader_slow.h), used by the plan or
 * not. Each plan carries the list over, so that the next leader has it.
 */
struct plan_slow {
    char node[NAME_SIZE];
    unsigned slot;
    uint64_t incarnation; /* of its firnd; a new incarnation resets the entry */
    double speed;         /* relative to its peers; 1: on probation */
    unsigned times;       /* number of times it was found slow, from 1 */
};

struct plan_move {
    unsigned unit;
    unsigned from_rank, to_rank; /* ranks of this plan, donors included */
};

/* @rank keeps a copy of @stage; its gradients come from the stage's worker of replica 0. */
struct plan_shadow {
    unsigned stage, rank;
};

/* When memory is short, sublayers keep only their input and recompute the rest for backward. The
 * bits are the same; the cost is the time of one more forward. */
enum plan_recompute {
    PLAN_RECOMPUTE_NONE,
    PLAN_RECOMPUTE_ATTENTION,
    PLAN_RECOMPUTE_FULL, /* attention and MLP */
    PLAN_RECOMPUTES
};

struct plan {
    char job[NAME_SIZE];
    uint64_t generation; /* from 1 */
    uint64_t follows;    /* generation in force when the plan was made; 0: none; of a planned
                            switch: the generation that it replaces */
    enum plan_reason reason;
    char reason_text[PLAN_REASON_SIZE]; /* for users: "node b lost: 6 slots -> 4" */
    bool planned;    /* takes effect at a step boundary of the previous generation; else at once */
    bool breaks_off; /* of a planned switch that cannot start: workers of the previous generation
                        that receive it leave that generation at once and report their state
                        (leader_supersede.c) */
    char key[PLAN_KEY_HEX_SIZE]; /* of the links, 32 random bytes in hexadecimal */

    char arithmetic[PLAN_ARITHMETIC_SIZE]; /* of all its nodes; "": mixed or unknown */
    unsigned links;                        /* link protocol of its workers; 0: unknown */
    unsigned stage_count, replica_count;
    unsigned worker_count, donor_count;
    struct plan_worker *workers;  /* worker_count + donor_count */
    unsigned *stage_first_unit;   /* stage_count + 1; the last is the unit count */
    unsigned *replica_first_lane; /* replica_count + 1; the last is the lane count */
    unsigned shadow_count;
    struct plan_shadow *shadows;   /* at most one per stage, ascending by stage */
    enum plan_recompute recompute; /* of all stages */
    unsigned frozen_layers;        /* assumed by the planner; the state has the actual number */

    enum plan_source source;
    uint64_t resume_step; /* committed steps at the start of the generation; of a planned switch: a
                             lower bound */
    bool disputed; /* rolls back because replicas held different state: output of the steps after
                      resume_step may be wrong */
    char restore_path[JOB_PATH_SIZE]; /* PLAN_SOURCE_CHECKPOINT: the checkpoint's folder */
    bool has_commit; /* survivors at HOLD(commit.step) first apply that step with `commit` */
    struct step_record commit;
    unsigned move_count;
    struct plan_move *moves;
    /* Metrics history is sent from from_rank (an old member) to to_rank on each node without it. */
    unsigned history_count;
    struct plan_move *histories; /* unit unused */

    /* Only of jobs with checkpoint.copies above 1: */
    unsigned copies; /* per share of a checkpoint; 0: checkpoints are in one shared folder */
    unsigned store_count;
    struct plan_store *stores;
    char restore_sha256[65]; /* PLAN_SOURCE_CHECKPOINT: of the manifest, when its files are on the
                                stores; "": the whole checkpoint is at restore_path */

    double predicted_step_seconds; /* predicted by the planner */

    /* A netsplit separates nodes of the plan, and the job needs all of them
     * (elastic/leader/leader_netsplit.h). Silent hosts get the same deadline as all others, because
     * the netsplit may heal. */
    bool patient;

    unsigned slow_count;
    struct plan_slow slow[PLAN_SLOW_MAX];

    unsigned shares; /* additional owners, by plan_share() */
};

/**
 * plan_free() - release one ownership, of plan_new() or plan_share(); the last one frees the plan;
 * NULL allowed. Plans are heap objects because of their arrays.
 */
void plan_free(struct plan *plan);
struct plan *plan_new(void); /* zeroed; NULL when out of memory */
/**
 * plan_share() - add an owner and return the same plan, which is read-only from now on. A copy of a
 * plan with a thousand workers is slower than any other operation on it.
 */
struct plan *plan_share(const struct plan *plan);
struct plan *plan_copy(const struct plan *plan);

/**
 * plan_check() - check every invariant that a plan must satisfy before use
 *
 * Ranges cover units and lanes without gap or overlap. No slot has two ranks. A shadow is a worker
 * of another stage on another node. A move goes to a worker that owns or shadows the unit, once
 * each, and comes from another rank. A commit is complete and is of the step from which the
 * generation resumes. Moves and commits occur only with PLAN_SOURCE_MEMORY.
 * Return: 0, or -EINVAL with the reason; -ENOMEM.
 */
int plan_check(const struct plan *plan, struct error *error) CHECK_RESULT;

/**
 * plan_encode() - encode for etcd and workers; new reference, NULL when out of memory; the workers
 * are packed (elastic/plan/plan_workers.h)
 */
json_t *plan_encode(const struct plan *plan);
/**
 * plan_describe() - encode for users and their programs: workers one by one, and without the link
 * key, which would let any program join the links
 */
json_t *plan_describe(const struct plan *plan);
/** plan_decode() - decode a plan with bounds and plan_check(); -EINVAL names the key; -ENOMEM */
int plan_decode(const json_t *tree, struct plan **ret_plan, struct error *error) CHECK_RESULT;

/** plan_key_bytes() - decode a plan's link key to bytes; false when malformed */
#define PLAN_KEY_SIZE 32
bool plan_key_bytes(const char *key, uint8_t ret_key[PLAN_KEY_SIZE]);

/* Return the word used in JSON and in messages: "failure", "memory". */
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
/** plan_find() - return the rank of (node, slot), or -1 */
int plan_find(const struct plan *plan, const char *node, unsigned slot);
/** plan_find_node() - return the lowest rank on @node, workers before donors, or -1 */
int plan_find_node(const struct plan *plan, const char *node);

/**
 * plan_lone_node() - return the node that has all workers, so that a commit needs no other node;
 * NULL: none
 */
const char *plan_lone_node(const struct plan *plan);

/** plan_shadow_of() - return the rank that keeps the copy of @stage, or -1 */
int plan_shadow_of(const struct plan *plan, unsigned stage);

/** plan_keeps() - return whether @rank computes @unit or keeps a copy of it; false for a donor */
bool plan_keeps(const struct plan *plan, unsigned rank, unsigned unit);

/**
 * plan_peers() - list the ranks that @rank has links with, ascending: pipeline neighbours, the
 * other end of its replica when it is one end (a tied token table), the replicas of its stage, the
 * shadow of its stage, the workers of the stages that it shadows, its parent and children in the
 * commit tree, and the two ends of its moves and histories
 * @ret_ranks: room for worker_count + donor_count
 */
unsigned plan_peers(const struct plan *plan, unsigned rank, unsigned *ret_ranks);

/* The commit exchange runs along a tree over ranks [0, worker_count) with this fan-out, root 0. */
#define PLAN_TREE_FAN 8
static inline unsigned plan_tree_parent(unsigned rank) /* of a rank that is not the root */
{
    return (rank - 1) / PLAN_TREE_FAN;
}
/**
 * plan_tree_children() - return the number of children of @rank; the children are [*ret_first,
 * *ret_first + the result)
 */
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
