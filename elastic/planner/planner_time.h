/*
 * How long a step takes and how much memory a stage needs on a layout that is not running yet.
 * Private to the planner: planner.h says what it is for.
 */
#pragma once

#include "elastic/planner/planner.h"

static inline double slot_speed(const struct planner_slot *slot)
{
    return slot->speed > 0 ? slot->speed : 1; /* 0: not measured */
}

/* What one stage costs in the replica that takes longest. */
struct stage_cost {
    double forward, backward; /* seconds of one micro-batch */
    double transfer;          /* seconds to the next stage, and of the gradient back; 0: the last */
    size_t trained_bytes;     /* parameters that are reduced and updated */
    bool has_backward;        /* something at or below this stage is trained */
};

struct layout_shape {
    unsigned stage_count, replica_count;
    unsigned lanes_held; /* by the replica that takes longest, which */
    double speed;        /* this is the speed of */
    unsigned lanes_most; /* that any replica carries */
    double slowest;      /* speed of the slowest slot */
    enum plan_recompute recompute;
    unsigned sums; /* sums_room() */
};

/** stage_costs() - of the stages that @first cuts the units into; @ret_costs: stage_count */
void stage_costs(const struct planner_input *input, const struct layout_shape *shape,
                 const unsigned *first, struct stage_cost *ret_costs);

/**
 * time_bound() - no schedule of these stages is faster than this; O(stages)
 *
 * Every stage must wait for its first micro-batch, compute all of them, and see the last one
 * through the rest of the pipeline. Then reduction, commit and optimizer as in time_predict().
 */
double time_bound(const struct planner_input *input, const struct layout_shape *shape,
                  const struct stage_cost *costs);

struct time_prediction {
    double step_seconds, bubble_share;
};

/** time_predict() - simulate the 1F1B schedule operation by operation; 0 or -ENOMEM */
int time_predict(const struct planner_input *input, const struct layout_shape *shape,
                 const struct stage_cost *costs, struct time_prediction *ret_time) CHECK_RESULT;

/** gradient_buffers() - of a replica that runs @lanes_held lanes one after another */
unsigned gradient_buffers(unsigned lanes_held);

/*
 * Room for gradients is counted in quarters of a buffer, so that plans of many shapes are weighed
 * with few different ones.
 */
#define ROOM_PARTS 4

/**
 * sums_room() - where a reduction's sums of other replicas arrive: each of their subtrees, of the
 * one shard that this replica adds
 * @first_lane: of each of @replicas, and the end of the last
 */
unsigned sums_room(unsigned lanes, unsigned replicas, const unsigned *first_lane);
/** sums_room_even() - of replicas that carry as many lanes each, as nearly as can be */
unsigned sums_room_even(unsigned lanes, unsigned replicas);

/** gradient_room() - the buffers of a replica that runs @lanes_held lanes, and @sums */
static inline unsigned gradient_room(unsigned lanes_held, unsigned sums)
{
    return ROOM_PARTS * gradient_buffers(lanes_held) + sums;
}

/* The memory of a stage that grows unit by unit: what of it does not depend on where it stands. */
struct planned_stage {
    size_t state, in_flight, boundary, scratch, link, tied;
    bool trained;                  /* some unit of it is */
    unsigned tied_ends;            /* of the one table that a model may have tied */
    size_t again[PLAN_RECOMPUTES]; /* by kind: one set that all units of it work in */
};

/** planned_stage_grow() - @stage, first {0}, has one more unit */
void planned_stage_grow(struct planned_stage *stage, const struct planner_unit *unit, unsigned room,
                        enum plan_recompute recompute);
/** planned_stage_bytes() - as planner_stage_bytes() of the units that it has */
size_t planned_stage_bytes(const struct planned_stage *stage, unsigned stages_left);

/**
 * planner_stage_bytes() - parameters, their weights, room for gradients and two moments of what is
 * trained, what the stage computes in, the activations of @stages_left micro-batches in flight
 * (1F1B: so many stages from this one on), the gradient of a tied table's other end, and what links
 * may hold of it
 * @room: gradient_room()
 */
size_t planner_stage_bytes(const struct planner_unit *units, unsigned first, unsigned end,
                           unsigned stages_left, unsigned room, enum plan_recompute recompute);
