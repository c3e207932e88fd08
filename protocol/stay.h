/*
 * A worker's stay in a generation, once its links are up: the next action, until the worker enters
 * the next generation or leaves.
 *
 * Steps are computed and committed one after another. The commit of a step may announce a
 * generation, which begins at that boundary. After the last step the finished model is evaluated
 * instead, if the job evaluates, and saved. Rank 0 may also break the links for a generation within
 * a step or within that evaluation (elastic/plan/early_switch.h), which the ranks then leave. The
 * announced plan may have no workers: then the boundary's state is saved before the ranks leave,
 * over new links if the old ones were broken.
 *
 * A state machine without I/O: its action is the next task of its driver, followed by the call that
 * the action names. It is the same on all ranks of the generation.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"

enum stay_action {
    STAY_STEP,         /* compute, agree on and apply a step; then stay_stepped() or stay_left() */
    STAY_EVALUATE,     /* evaluate the finished model; then stay_evaluated() or stay_left() */
    STAY_AWAIT_PLAN,   /* await the plan of `announced`, here or in flight; then stay_has_plan() */
    STAY_SWITCH,       /* the end: enter `announced` */
    STAY_FINISH,       /* the end: write the last checkpoint, then leave */
    STAY_FINISH_EARLY, /* the same over new links */
    STAY_LEAVE,        /* the end: leave without writing anything */
    STAY_BREAK,        /* the end: the links broke, or the plan did not arrive */
};

struct stay {
    const struct plan *plan; /* of the generation; borrowed */
    uint64_t steps;          /* of the job */
    bool evaluates;          /* the job evaluates, also the finished model */
    uint64_t applied_step;
    bool stepped; /* a step was committed in this stay */
    enum stay_action action;
    uint64_t announced; /* the generation for which the stay ends; 0: the stay ends with the job */
    bool early;         /* rank 0 broke the links for it */
};

/** stay_begin() - begin at the boundary after @applied_step, in the generation of @plan, borrowed
 * @steps: of the job
 * @evaluates: the finished model is evaluated */
void stay_begin(struct stay *stay, const struct plan *plan, uint64_t applied_step, uint64_t steps,
                bool evaluates);
/** stay_stepped() - note that a step was committed and applied
 * @announced: the generation that begins after it; 0: none */
void stay_stepped(struct stay *stay, uint64_t announced);
/** stay_evaluated() - note that all ranks have the result */
void stay_evaluated(struct stay *stay);
/** stay_left() - note that the step or the evaluation was left
 * @early: the generation for which rank 0 broke the links; 0: another cause broke them */
void stay_left(struct stay *stay, uint64_t early);
/** stay_has_plan() - note that the wait for the announced plan is over
 * @next: NULL: it did not arrive in time */
void stay_has_plan(struct stay *stay, const struct plan *next);

/** stay_ends_job() - return whether the last checkpoint, which is next, is that of the job */
static inline bool stay_ends_job(const struct stay *stay)
{
    return stay->action == STAY_FINISH && !stay->announced;
}
