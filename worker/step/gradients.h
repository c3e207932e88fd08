/*
 * Gradient buffers of one stage, summed along the lane tree while lanes run one after another.
 *
 * A lane accumulates its micro-batches into a buffer of its own. After the last one, sums that are
 * the two children of a node of the tree are merged. At the end the buffers of a unit hold the
 * maximal subtrees of this replica's lanes, the input of comm/reduce/reduce.h. A contiguous range
 * of lanes needs at most 2 * log2(lanes) + 1 buffers, fewer where it is cut along the tree. The
 * head of a lane that is another replica's keeps its buffer until the step ends: it is passed on
 * from there. So does the sum of a head that another replica passes to this one, until this replica
 * continues from it (worker/step/lane_relay.h).
 *
 * The sums are facts about the step: they follow from the parameters, the samples and the tree, not
 * from the layout. When a generation ends within a step, the buffers stay with the worker, and the
 * next generation's gradients adopt those with which this replica goes on
 * (protocol/step_division.h).
 */
#pragma once

#include "comm/lanes/lane_tree.h"
#include "kernels/kernel.h"
#include "protocol/step_sums.h"
#include "worker/state/state.h"

struct gradients;

/* The sum in one buffer: of a whole subtree, or of the first micro-batches of one lane. */
struct lane_sum {
    struct lane_tree_span span; /* count 0: the buffer is free */
    unsigned micro_batches;     /* of each lane of the span */
};

#define GRADIENTS_SUMS_MAX (2 * STEP_SUMS_UNIT_MAX) /* buffers of a unit that can be adopted */

/** gradients_depth() - return the number of buffers per unit that a replica takes */
unsigned gradients_depth(const struct step_division *division, unsigned replica);

struct gradients_options {
    struct state *state; /* borrowed; the memory comes from its arena */
    unsigned first_unit, unit_count;
    unsigned replica;                     /* of this worker */
    const struct step_division *division; /* borrowed; the lanes of this replica */
    bool skips;             /* gradients_has() is asked first: no micro-batch is added twice */
    struct gradients *kept; /* consumed: buffers and sums of the step in progress, still in the
                               arena; those of other units are left there; NULL: none */
    const struct step_sums *offered; /* borrowed: the chosen sums of other ranks, which arrive
                                        during the step; NULL: none */
};

/** gradients_new() - take the buffers of a stage. -ENOMEM */
int gradients_new(const struct gradients_options *options, struct gradients **ret_gradients,
                  struct error *error) CHECK_RESULT;
void gradients_free(struct gradients *gradients);

/** gradients_begin() - begin a step: forget all sums except adopted ones in the first step */
void gradients_begin(struct gradients *gradients);

/** gradients_has() - return whether an adopted sum of @unit has the @index-th micro-batch of @lane
 * already */
bool gradients_has(const struct gradients *gradients, unsigned unit, unsigned lane, unsigned index);

/** gradients_buffer() - return the buffer in which the @index-th micro-batch of @lane is added to
 * @unit; zeroed for a lane's first one. A micro-batch that is already in an adopted sum goes into
 * memory that is never read (not with gradients_options.skips) */
float *gradients_buffer(struct gradients *gradients, unsigned unit, unsigned lane, unsigned index);
/** gradients_added() - note that the buffer has that micro-batch; after a lane's last one, merge
 * subtrees */
void gradients_added(struct gradients *gradients, unsigned unit, unsigned lane, unsigned index);
/** gradients_subtrees() - return the buffers that hold one maximal subtree each after the last
 * lane, left to right; one buffer if this replica has no lane. The reduction puts its result into
 * [0] */
float *const *gradients_subtrees(struct gradients *gradients, unsigned unit);
/** gradients_reduced() - return the reduced gradients: [i] is those of unit first_unit + i */
float *const *gradients_reduced(struct gradients *gradients);

/** gradients_spoil() - note that the sums of @unit have been overwritten */
void gradients_spoil(struct gradients *gradients, unsigned unit);
/** gradients_same_units() - true if the buffers are of these units */
bool gradients_same_units(const struct gradients *gradients, unsigned first_unit,
                          unsigned unit_count);
/** gradients_are_current() - true if the same units are trained now */
bool gradients_are_current(const struct gradients *gradients);
/** gradients_sums() - list what the buffers of @unit hold, any unit of the model: @ret_sums has
 * GRADIENTS_SUMS_MAX entries. Return: how many; 0 also where there are more */
unsigned gradients_sums(const struct gradients *gradients, unsigned unit,
                        struct lane_sum *ret_sums);
/** gradients_sum() - return the buffer that holds the sum of @span of @unit, or is to hold it when
 * it has arrived; NULL: none */
float *gradients_sum(const struct gradients *gradients, unsigned unit, struct lane_tree_span span);
/** gradients_missed() - note that the sum of @span of @unit, which was offered, has not arrived */
void gradients_missed(struct gradients *gradients, unsigned unit, struct lane_tree_span span);
/** gradients_end_arena() - take back all parts of the arena but these buffers, so that
 * gradients_new() can adopt them */
void gradients_end_arena(struct gradients *gradients);
