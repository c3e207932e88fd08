/*
 * Predict the step time and the memory of each stage for a layout that is not running yet. Private
 * to the planner (planner.h).
 */
#pragma once

#include "elastic/planner/planner.h"

static inline double slot_speed(const struct planner_slot *slot)
{
    return slot->speed > 0 ? slot->speed : 1; /* 0: not measured */
}

/* The costs of one stage in the slowest replica. */
struct stage_cost {
    double forward, backward; /* seconds of one micro-batch; backward: until the gradient leaves */
    double weight;            /* seconds of the rest of backward, which is deferred */
    unsigned deferred;        /* the number of micro-batches whose weight part waits */
    double transfer;          /* seconds to the next stage, and for the gradient back; 0: last
                                 stage */
    size_t trained_bytes;     /* parameters that are reduced and updated */
    bool has_backward;        /* a unit of this or an earlier stage is trained */
};

struct layout_shape {
    unsigned stage_count, replica_count;
    unsigned micro_batches; /* of the slowest replica, in one step */
    double speed;           /* of the slowest replica */
    unsigned buffers;       /* of gradients: the most of any replica */
    bool shares;            /* replicas share lanes */
    double slowest;         /* speed of the slowest slot */
    enum plan_recompute recompute;
    unsigned deferred; /* plan_layout.deferred */
    unsigned sums;     /* sums_room() */
    double subtrees;   /* subtrees_even(); 0: not known, computed when needed */
};

/**
 * stage_costs() - compute the costs of the stages whose first units are @first
 * @ret_costs: stage_count entries
 */
void stage_costs(const struct planner_input *input, const struct layout_shape *shape,
                 const unsigned *first, struct stage_cost *ret_costs);

/** planner_stage_costs() - compute the costs of the slowest replica of @layout, and its
 * micro-batches of one step; 0 or -ENOMEM */
int planner_stage_costs(const struct planner_input *input, const struct plan_layout *layout,
                        struct stage_cost *ret_costs, unsigned *ret_micro_batches) CHECK_RESULT;

/**
 * time_bound() - return a lower bound of the step time of every schedule of these stages; O(stages)
 *
 * Every stage waits for its first micro-batch and computes all of them. The last micro-batch then
 * passes through the rest of the pipeline. Reduction, commit and optimizer follow as in
 * time_predict().
 */
double time_bound(const struct planner_input *input, const struct layout_shape *shape,
                  const struct stage_cost *costs);

struct time_prediction {
    double step_seconds, bubble_share;
};

/** time_predict() - simulate the schedule operation by operation; 0 or -ENOMEM */
int time_predict(const struct planner_input *input, const struct layout_shape *shape,
                 const struct stage_cost *costs, struct time_prediction *ret_time) CHECK_RESULT;

/** layout_head_seconds() - return the seconds in which the sum of a lane's head is passed on, in
 * the stage that has most to train
 * @first: the first unit of each stage, and the unit count */
double layout_head_seconds(const struct planner_input *input, unsigned stages,
                           const unsigned *first);

/** layout_buffers() - return the gradient buffers of a unit in @replica of @layout */
unsigned layout_buffers(const struct plan_layout *layout, unsigned replica);
/** buffers_even() - return the most gradient buffers in any of @replicas with equal numbers of
 * lanes, or nearly equal; O(lanes)
 * @micro_batches: of a lane, if replicas share lanes; else 0 */
unsigned buffers_even(unsigned lanes, unsigned micro_batches, unsigned replicas);

/** subtrees_even() - return the mean number of partial sums that each of @replicas with nearly
 * equal numbers of lanes contributes to a reduction; O(lanes) */
double subtrees_even(unsigned lanes, unsigned replicas);

/*
 * Gradient room is counted in quarters of a buffer, so that many layouts share few distinct values.
 */
#define ROOM_PARTS 4

/**
 * sums_room() - return the room for the partial sums that a reduction receives from other replicas:
 * each of their subtrees, for the one shard that this replica adds
 * @first_lane: the first lane of each of @replicas, then the end of the last replica
 */
unsigned sums_room(unsigned lanes, unsigned replicas, const unsigned *first_lane);
/**
 * sums_room_even() - return sums_room() for replicas with equal numbers of lanes, or nearly equal
 */
unsigned sums_room_even(unsigned lanes, unsigned replicas);

/** gradient_room() - return the room of @buffers and @sums */
static inline unsigned gradient_room(unsigned buffers, unsigned sums)
{
    return ROOM_PARTS * buffers + sums;
}

/* The part of a stage's memory that does not depend on its position. It grows unit by unit. */
struct planned_stage {
    size_t state, in_flight, boundary, scratch, link, tied;
    size_t head;                   /* its activations */
    size_t norms, unread_norms;    /* norm_bytes of the units that are split; the most of any */
    size_t frozen_streams;         /* shared by all frozen sublayers */
    bool trained;                  /* at least one unit is trained */
    unsigned tied_ends;            /* ends of the model's tied table in this stage */
    size_t again[PLAN_RECOMPUTES]; /* by kind: one buffer set shared by all units of the kind */
};

/** planned_stage_grow() - add @unit to @stage, which starts as {0} */
void planned_stage_grow(struct planned_stage *stage, const struct planner_unit *unit, unsigned room,
                        enum plan_recompute recompute);
/** planned_stage_bytes() - return planner_stage_bytes() of the units added to @stage */
size_t planned_stage_bytes(const struct planned_stage *stage, unsigned stages_left,
                           unsigned deferred);

/**
 * planner_stage_bytes() - return the memory of a stage
 *
 * The sum covers parameters, their weights, room for gradients and two moments of the trained
 * units, compute buffers, the activations of the micro-batches in flight (schedule_slots(): the
 * number of stages from this one on, and those whose weights are deferred), the gradient of a tied
 * table's other end, and the stage's messages that links may hold.
 * @room: gradient_room()
 * @deferred: schedule_deferred()
 */
size_t planner_stage_bytes(const struct planner_unit *units, unsigned first, unsigned end,
                           unsigned stages_left, unsigned room, enum plan_recompute recompute,
                           unsigned deferred);

/** layout_stage_bytes() - return planner_stage_bytes() of @stage in a layout with these stages */
size_t layout_stage_bytes(const struct planner_unit *units, const unsigned *stage_first_unit,
                          unsigned stage_count, unsigned stage, unsigned room,
                          enum plan_recompute recompute, unsigned deferred);
