/*
 * The order in which one stage runs its micro-batches: 1F1B (Narayanan et al., "PipeDream", SOSP
 * 2019; flushed every step). A pure function of the position, so every worker knows everybody's.
 *
 * Stage k of K runs K - 1 - k forwards ahead, then one forward and one backward in turn, then the
 * backwards that are left. Micro-batch i lives in slot i % schedule_slots(); its backward comes
 * before the forward that takes the slot again. A stage without trained units runs forwards only.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct schedule_position {
    unsigned stage, stage_count;
    unsigned micro_batch_count; /* of this replica in one step */
    bool backward;              /* the stage has something to train */
};

struct schedule_operation {
    bool backward;
    unsigned micro_batch;
    unsigned slot;
};

/** schedule_slots() - micro-batches in flight at most: what the stage needs activations for */
unsigned schedule_slots(const struct schedule_position *position);

/** schedule_operation_count() - of one step */
unsigned schedule_operation_count(const struct schedule_position *position);

/** schedule_operation() - the @index-th one, index < schedule_operation_count() */
struct schedule_operation schedule_operation(const struct schedule_position *position,
                                             unsigned index);
