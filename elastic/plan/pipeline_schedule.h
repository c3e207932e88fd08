/*
 * The order in which one stage runs its micro-batches: 1F1B (Narayanan et al., "PipeDream", SOSP
 * 2019; flushed every step), or ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024).
 * The order is a pure function of the position.
 *
 * Stage k of K runs K - 1 - k forwards ahead, then one forward and one backward in turn, then the
 * remaining backwards. A stage that defers d weight gradients runs the input's part of each
 * backward in place of the whole, and then the weights' part of the micro-batch d before; the last
 * d parts follow at the end. So the gradient passes up the pipeline without waiting for weights,
 * and the deferred work fills the time in which the stage would idle. Deferring changes neither the
 * order of messages nor that of sums: each stage may defer as many as its memory allows, without
 * the knowledge of other stages. The k-th trained stage gains nothing from more than k; the first
 * trained stage, which sends no gradient, gains nothing from any. The idle time of each stage is
 * then (K - 1)(F + B - W), where 1F1B has (K - 1)(F + B + W), and no stage holds more than K
 * micro-batches.
 *
 * Micro-batch i uses slot i % schedule_slots(); its last operation precedes the next forward in the
 * same slot. A stage without trained units runs forwards only.
 */
#pragma once

#include "base/compiler.h"
#include "elastic/plan/plan_layout.h"

struct schedule_position {
    unsigned stage, stage_count;
    unsigned micro_batch_count; /* of this replica in one step */
    unsigned deferred;          /* number of micro-batches whose weight gradients are deferred */
    bool backward;              /* the stage has trained units */
};

enum schedule_kind {
    SCHEDULE_FORWARD,
    SCHEDULE_BACKWARD,        /* whole: of a stage that defers nothing */
    SCHEDULE_BACKWARD_INPUT,  /* the gradient of the stage's input */
    SCHEDULE_BACKWARD_WEIGHT, /* the deferred rest: the gradients of the weights */
};

struct schedule_operation {
    enum schedule_kind kind;
    unsigned micro_batch;
    unsigned slot;
};

/**
 * schedule_deferred() - return how many weight gradients @stage defers
 * @stage_first_unit: of the layout, one more than stages
 * @frozen_units: of the model, from the first one on
 * @most: plan_layout.deferred
 */
unsigned schedule_deferred(const unsigned *stage_first_unit, unsigned stage, unsigned frozen_units,
                           unsigned most);

/**
 * schedule_position_of() - return the position of @stage in @layout, with @frozen_units of the
 * model frozen and @micro_batch_count micro-batches of its replica
 */
struct schedule_position schedule_position_of(const struct plan_layout *layout, unsigned stage,
                                              unsigned frozen_units, unsigned micro_batch_count);

/**
 * schedule_slots() - return the largest number of micro-batches in flight, each of which needs
 * activations
 */
unsigned schedule_slots(const struct schedule_position *position);

/** schedule_operation_count() - return the number of operations of one step */
unsigned schedule_operation_count(const struct schedule_position *position);

/** schedule_operation() - return the @index-th operation, index < schedule_operation_count() */
struct schedule_operation schedule_operation(const struct schedule_position *position,
                                             unsigned index);
