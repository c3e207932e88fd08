/*
 * The layout of a generation: stages, replicas and lanes, and the slot of each rank.
 *
 * Ranks: workers [0, worker_count) compute; rank = replica * stage_count + stage. Workers
 * [worker_count, worker_count + donor_count) only hand over state and then leave.
 *
 * Shadows: a stage whose replicas are all on one node may have a worker of another node that keeps
 * a copy of its state in addition to its own, so that the loss of one node never destroys the only
 * copy (worker/step/shadow.h).
 *
 * Shared lanes: where lanes do not divide evenly, a lane may have its first micro-batches computed
 * by the replica before its own, which passes their sum on (worker/step/lane_relay.h). A lane
 * belongs to the replica that computes its last micro-batch.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"
#include "elastic/job/job_elasticity.h"

#define PLAN_RANKS_MAX   (2 * JOB_DEVICES_MAX) /* workers and donors */
#define PLAN_SLOTS_MAX   64                    /* per node: REPORT_WORKERS_MAX */
#define PLAN_SHADOWS_MAX 8                     /* copies kept by one worker */

struct plan_worker {
    char node[NAME_SIZE];
    unsigned slot;
    char address[ADDRESS_SIZE]; /* of its link listener */
    uint64_t instance;          /* of the process that holds state (from hello); 0: any process */
};

/** plan_worker_is_new() - return whether the plan wants a new process on the slot, without state */
static inline bool plan_worker_is_new(const struct plan_worker *worker)
{
    return worker->instance == 0;
}

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

struct plan_layout {
    unsigned stage_count, replica_count;
    unsigned worker_count, donor_count;
    struct plan_worker *workers;  /* worker_count + donor_count */
    unsigned *stage_first_unit;   /* stage_count + 1; the last is the unit count */
    unsigned *replica_first_lane; /* replica_count + 1; the last is the lane count */
    unsigned lane_micro_batches;  /* of each lane, if replicas may share lanes; else 0 */
    double head_seconds;          /* predicted time in which the sum of a head is passed on */
    double copy_seconds;    /* between two copies of a worker's sums, which another replica keeps
                               (protocol/sum_copies.h); 0: no copies */
    unsigned *replica_head; /* replica_count + 1: the first micro-batches of a replica's first lane
                               that the replica before it computes; NULL: no lane is shared */
    unsigned shadow_count;
    struct plan_shadow *shadows;   /* at most one per stage, ascending by stage */
    enum plan_recompute recompute; /* of all stages */
    unsigned deferred;      /* most weight gradients that a stage may defer (pipeline_schedule.h) */
    unsigned frozen_layers; /* assumed by the planner; the state has the actual number */
    double predicted_step_seconds; /* predicted by the planner */
    double prediction_factor;      /* measured over predicted step time of the plan before: a
                                      calibrated time is the product; 0: unknown */
};

/** plan_layout_expected_seconds() - return the calibrated prediction of a step */
static inline double plan_layout_expected_seconds(const struct plan_layout *layout)
{
    return layout->predicted_step_seconds *
           (layout->prediction_factor > 0 ? layout->prediction_factor : 1);
}

static inline unsigned plan_layout_rank(const struct plan_layout *layout, unsigned replica,
                                        unsigned stage)
{
    return replica * layout->stage_count + stage;
}
static inline unsigned plan_layout_unit_count(
    const struct plan_layout *layout) /* 0 for an empty plan */
{
    return layout->stage_count == 0 ? 0 : layout->stage_first_unit[layout->stage_count];
}
static inline unsigned plan_layout_lane_count(
    const struct plan_layout *layout) /* 0 for an empty plan */
{
    return layout->replica_count == 0 ? 0 : layout->replica_first_lane[layout->replica_count];
}
/** plan_layout_head() - return how many first micro-batches of @replica's first lane the replica
 * before it computes; 0 also for @replica == replica_count */
static inline unsigned plan_layout_head(const struct plan_layout *layout, unsigned replica)
{
    return layout->replica_head ? layout->replica_head[replica] : 0;
}
/** plan_layout_lanes_computed() - return how many lanes @replica computes, parts of lanes included
 */
double plan_layout_lanes_computed(const struct plan_layout *layout, unsigned replica);

/** plan_layout_find() - return the rank of (node, slot), or -1 */
int plan_layout_find(const struct plan_layout *layout, const char *node, unsigned slot);
/** plan_layout_find_node() - return the lowest rank on @node, workers before donors, or -1 */
int plan_layout_find_node(const struct plan_layout *layout, const char *node);

/**
 * plan_layout_lone_node() - return the node that has all workers, so that a commit needs no other
 * node; NULL: none
 */
const char *plan_layout_lone_node(const struct plan_layout *layout);

/** plan_layout_shadow_of() - return the rank that keeps the copy of @stage, or -1 */
int plan_layout_shadow_of(const struct plan_layout *layout, unsigned stage);

/** plan_layout_keeps() - return whether @rank computes @unit or keeps a copy of it; false for a
 * donor */
bool plan_layout_keeps(const struct plan_layout *layout, unsigned rank, unsigned unit);
