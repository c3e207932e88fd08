/*
 * The shape of a layout: what its step time and its memory depend on, apart from the partition of
 * the units. Private to the planner (planner.h).
 *
 * Each replica is as fast as its slowest slot and gets lanes by its speed (elastic/plan/lanes.h).
 */
#pragma once

#include "elastic/planner/planner_time.h"

/** shape_fill() - return the time for a replica's pipeline to fill and drain, in lanes */
double shape_fill(const struct planner_input *input, unsigned stages);

/** shape_room() - return the room for gradients of the replica that needs most */
static inline unsigned shape_room(const struct layout_shape *shape)
{
    return gradient_room(shape->buffers, shape->sums);
}

/**
 * shape_of_replicas() - return the shape of replicas with these speeds and lanes. The slowest
 * replica gives its micro-batches and speed
 * @heads: as plan_layout.replica_head; NULL: no lane is shared
 */
struct layout_shape shape_of_replicas(const struct planner_input *input, unsigned stages,
                                      unsigned replicas, const double *speeds,
                                      const unsigned *first, const unsigned *heads);

/** shape_of_layout() - return the shape of a layout on its slots; slots that @input does not list
 * count as reference slots. 0, -ENOMEM */
int shape_of_layout(const struct planner_input *input, const struct plan_layout *layout,
                    struct layout_shape *ret_shape) CHECK_RESULT;

/** shape_split_alike() - split lanes over replicas that are alike, as @shape says, into the empty
 * replica_first_lane of @layout; its replica_head is made. -ENOMEM */
int shape_split_alike(const struct planner_input *input, const struct layout_shape *shape,
                      struct plan_layout *layout) CHECK_RESULT;

/**
 * shape_split_unlike() - split lanes by the speeds of the placed replicas. These may differ from
 * the speeds for which the layout was chosen, because placement may give a replica a slow slot to
 * keep it on one node
 * @chosen: lanes are even again where they would need more memory than this shape; NULL: memory
 * is not limited
 */
int shape_split_unlike(const struct planner_input *input, const struct layout_shape *chosen,
                       struct plan_layout *layout) CHECK_RESULT;
