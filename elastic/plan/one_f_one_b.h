/*
 * The order in which one stage runs its micro-batches: 1F1B (Narayanan et al., "PipeDream", SOSP
 * 2019; flushed every step). A pure function of the position, so every worker knows everybody's.
 *
 * Stage k of K runs K - 1 - k forwards ahead, then one forward and one backward in turn, then the
 * backwards that are left. Micro-batch i lives in slot i % one_f_one_b_slots(); its backward comes
 * before the forward that takes the slot again. A stage without trained units runs forwards only.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct one_f_one_b_position {
    unsigned stage, stage_count;
    unsigned micro_batch_count; /* of this replica in one step */
    bool backward;              /* the stage has something to train */
};

struct one_f_one_b_operation {
    bool backward;
    unsigned micro_batch;
    unsigned slot;
};

/** one_f_one_b_slots() - micro-batches in flight at most: what the stage needs activations for */
unsigned one_f_one_b_slots(const struct one_f_one_b_position *position);

/** one_f_one_b_operation_count() - of one step */
unsigned one_f_one_b_operation_count(const struct one_f_one_b_position *position);

/** one_f_one_b_operation() - the @index-th one, index < one_f_one_b_operation_count() */
struct one_f_one_b_operation one_f_one_b_operation(const struct one_f_one_b_position *position,
                                                   unsigned index);
