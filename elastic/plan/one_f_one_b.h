/*
 * The order in which one stage runs its micro-batches: 1F1B (Narayanan et al., "PipeDream", SOSP
 * 2019; flushed every step). The order is a pure function of the position, so every worker knows
 * the order of all workers.
 *
 * Stage k of K runs K - 1 - k forwards ahead, then one forward and one backward in turn, then the
 * remaining backwards. Micro-batch i uses slot i % one_f_one_b_slots(); its backward precedes the
 * next forward in the same slot. A stage without trained units runs forwards only.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct one_f_one_b_position {
    unsigned stage, stage_count;
    unsigned micro_batch_count; /* of this replica in one step */
    bool backward;              /* the stage has trained units */
};

struct one_f_one_b_operation {
    bool backward;
    unsigned micro_batch;
    unsigned slot;
};

/**
 * one_f_one_b_slots() - return the largest number of micro-batches in flight, each of which needs
 * activations
 */
unsigned one_f_one_b_slots(const struct one_f_one_b_position *position);

/** one_f_one_b_operation_count() - return the number of operations of one step */
unsigned one_f_one_b_operation_count(const struct one_f_one_b_position *position);

/**
 * one_f_one_b_operation() - return the @index-th operation, index < one_f_one_b_operation_count()
 */
struct one_f_one_b_operation one_f_one_b_operation(const struct one_f_one_b_position *position,
                                                   unsigned index);
