/*
 * The boundaries at which a generation begins checkpoints: those that the job names, and one more
 * for a checkpoint that was missed.
 *
 * A change of layout abandons the shares that are in flight, and at its own boundary none begins.
 * Without more, a job whose layout changes as often as it has checkpoints due, as when layers
 * freeze at the same steps, would have none. So a plan names the newest checkpoint that was
 * recorded as it was made. If one was due since, the generation begins it after its first step.
 * While the shares before it are still in flight it waits for twice as many steps, again and again,
 * until the next one is due.
 *
 * All ranks know the plan, the step with which the generation began, and whether a checkpoint is
 * begun: they find the same without a message.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/job/job_spec.h"
#include "elastic/plan/plan.h"

struct checkpoint_calendar {
    const struct job_spec *spec; /* borrowed */
    uint64_t began_step;         /* committed steps at the start of the generation */
    uint64_t missed_due;         /* where a missed checkpoint is begun; 0: none was missed */
};

/** checkpoint_calendar_begin() - begin the generation of @plan, with the state after @applied_step
 */
void checkpoint_calendar_begin(struct checkpoint_calendar *calendar, const struct job_spec *spec,
                               const struct plan *plan, uint64_t applied_step);
/** checkpoint_calendar_due() - return whether a checkpoint is due at the boundary after @step;
 * false after the last step, whose checkpoint all ranks write together
 * (protocol/final_checkpoint.h) */
bool checkpoint_calendar_due(const struct checkpoint_calendar *calendar, uint64_t step);
/** checkpoint_calendar_left_out() - the one that is due after @step was not begun: some rank could
 * not */
void checkpoint_calendar_left_out(struct checkpoint_calendar *calendar, uint64_t step);
