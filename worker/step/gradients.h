/*
 * Gradient buffers of one stage, summed along the lane tree while lanes run one after another.
 *
 * A lane accumulates its micro-batches into the buffer on top of a stack; after its last one, equal
 * neighbours of the tree are merged, like the carries of a binary counter. At the end the stack has
 * the maximal subtrees of this replica's lanes, left to right, as comm/reduce/reduce.h takes them.
 * The stack is log2(lanes held) + 1 buffers deep for aligned ranges, for any number of lanes.
 */
#pragma once

#include "comm/reduce/lane_tree.h"
#include "kernels/kernel.h"
#include "worker/state/state.h"

struct gradients;

/** gradients_depth() - return the number of buffers per unit that gradients_new() allocates */
unsigned gradients_depth(unsigned lanes, struct lane_tree_span lane_range);

/**
 * gradients_new() - allocate buffers for units [first_unit, first_unit + unit_count)
 * @state: borrowed; the memory comes from its arena
 * @lanes: of the job; @lane_range: those of this replica, at least one
 *
 * Return: 0; -ENOMEM
 */
int gradients_new(const struct state *state, unsigned first_unit, unsigned unit_count,
                  unsigned lanes, struct lane_tree_span lane_range,
                  struct gradients **ret_gradients, struct error *error) CHECK_RESULT;
void gradients_free(struct gradients *gradients);

/** gradients_buffer() - return the buffer in which @lane's micro-batches of @unit accumulate;
 * zeroed for the lane's first micro-batch */
float *gradients_buffer(struct gradients *gradients, unsigned unit, unsigned lane,
                        bool first_micro_batch);
/** gradients_lane_done() - merge subtrees after the lane's last micro-batch has passed @unit */
void gradients_lane_done(struct gradients *gradients, unsigned unit, unsigned lane);
/** gradients_subtrees() - after the last lane: return one buffer per maximal subtree; the reduction
 * puts its result into [0] */
float *const *gradients_subtrees(struct gradients *gradients, unsigned unit);
/** gradients_reduced() - return the reduced gradients: [i] is those of unit first_unit + i */
float *const *gradients_reduced(struct gradients *gradients);
