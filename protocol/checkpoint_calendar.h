/*
 * The boundaries at which a generation begins checkpoints: those that the job names, and one more
 * for a missed checkpoint.
 *
 * A change of layout abandons the shares in flight, and no checkpoint begins at its boundary. So a
 * job whose layout changes as often as checkpoints are due (when layers freeze at the same steps,
 * say) would have none. Therefore a plan names the newest checkpoint recorded when the plan was
 * made. If one was due since, the generation begins it after its first step. While earlier shares
 * are still in flight, the wait doubles each time, until the next checkpoint is due.
 *
 * All ranks know the plan, the first step of the generation, and whether a checkpoint was begun:
 * they reach the same result without a message.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/job/job_spec.h"
#include "elastic/plan/plan.h"

struct checkpoint_calendar {
    const struct job_spec *spec; /* borrowed */
    uint64_t began_step;         /* committed steps at the start of the generation */
    uint64_t missed_due;         /* the step at which a missed checkpoint begins; 0: none was
                                    missed */
};

/** checkpoint_calendar_begin() - begin the generation of @plan, with the state after @applied_step
 */
void checkpoint_calendar_begin(struct checkpoint_calendar *calendar, const struct job_spec *spec,
                               const struct plan *plan, uint64_t applied_step);
/** checkpoint_calendar_due() - return whether a checkpoint is due at the boundary after @step;
 * false after the last step, whose checkpoint all ranks write together
 * (protocol/final_checkpoint.h) */
bool checkpoint_calendar_due(const struct checkpoint_calendar *calendar, uint64_t step);
/** checkpoint_calendar_left_out() - note that the checkpoint due after @step was not begun: some
 * rank could not */
void checkpoint_calendar_left_out(struct checkpoint_calendar *calendar, uint64_t step);
