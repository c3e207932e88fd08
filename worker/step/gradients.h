/*
 * Gradient buffers of one stage, summed along the lane tree while lanes run one after another.
 *
 * A lane accumulates its micro-batches into the buffer on top of a stack; when it is done, equal
 * neighbours of the tree are merged, like the carries of a binary counter. What is left at the end
 * are the maximal subtrees of this replica's lanes, left to right: what comm/reduce/reduce.h wants.
 * The stack is log2(lanes held) + 1 buffers deep for aligned ranges, whatever the number of lanes.
 */
#pragma once

#include "comm/reduce/lane_tree.h"
#include "kernels/kernel.h"
#include "worker/state/state.h"

struct gradients;

/** gradients_depth() - buffers a unit that gradients_new() takes */
unsigned gradients_depth(unsigned lanes, struct lane_tree_span lane_range);

/**
 * gradients_new() - buffers for units [first_unit, first_unit + unit_count) of @state, which it
 * borrows and takes the memory from
 * @lanes: of the job; @lane_range: those of this replica, at least one
 * Return: 0; -ENOMEM
 */
int gradients_new(const struct state *state, unsigned first_unit, unsigned unit_count,
                  unsigned lanes, struct lane_tree_span lane_range,
                  struct gradients **ret_gradients, struct error *error) CHECK_RESULT;
void gradients_free(struct gradients *gradients);

/** gradients_buffer() - where @lane's micro-batches of @unit accumulate; zeroed at the lane's first
 */
float *gradients_buffer(struct gradients *gradients, unsigned unit, unsigned lane,
                        bool first_micro_batch);
/** gradients_lane_done() - the lane's last micro-batch has passed @unit: merge what the tree says
 */
void gradients_lane_done(struct gradients *gradients, unsigned unit, unsigned lane);
/** gradients_subtrees() - after the last lane: one buffer per maximal subtree; the reduced result
 * is put into [0] */
float *const *gradients_subtrees(struct gradients *gradients, unsigned unit);
/** gradients_reduced() - reduced[i] is unit first_unit + i's subtree buffer 0 */
float *const *gradients_reduced(struct gradients *gradients);
