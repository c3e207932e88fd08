/*
 * Watch the step in progress for a planned change that need not wait for the end of the step.
 *
 * When all ranks have the next plan (protocol/plan_spread.h), rank 0 decides
 * (elastic/plan/early_switch.h) and breaks the links with a reason that names the generation and
 * the step, which every rank recognizes. Rank 0 decides only while it computes or waits for the
 * sums of the step, so no rank has committed it; a rank that sees any other reason treats it as a
 * failure.
 *
 * Ranks look at the boundaries of micro-batches, and ten times a second while they wait for others:
 * for messages over the links, not for a device that waits within NCCL. While no change is
 * announced, this costs one load, and once per step a check for children's messages.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/plan_spread.h"
#include "worker/step/engine.h"

struct trainer;

struct step_watch {
    uint64_t began_ns; /* of the part that is computed, evaluation or training; monotonic */
    uint64_t last_ns;  /* of training, in the step before of this generation; 0: not known */
    bool looked;       /* in this step */
    uint64_t next_generation, next_since_ns; /* on rank 0: the plan that follows, and its arrival */
    double next_kept;                        /* by that plan: early_switch_kept() */
    struct plan_spread spread;
};

/** step_watch_begin() - note that a step begins, of which no message was sent yet */
void step_watch_begin(struct trainer *trainer);

/** step_watch_end() - note that the step has been committed
 * @step_ns: duration of its training, of all of the step */
void step_watch_end(struct trainer *trainer, uint64_t step_ns);

/** step_watch_leaves() - between two operations of the engine: return whether to leave the step
 * (worker/step/engine.h) */
bool step_watch_leaves(struct trainer *trainer, const struct engine_progress *progress);

/** step_watch_switch() - after the links broke in @step: return the generation for which rank 0 has
 * broken them; 0: a failure */
uint64_t step_watch_switch(const struct trainer *trainer, uint64_t step);
