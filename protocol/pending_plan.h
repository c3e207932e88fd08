/*
 * The plan that a worker is to enter: the newest that its firnd has sent.
 *
 * All workers must enter the same generation. After a commit, or rank 0 within a step, has
 * announced a switch, a planned plan that was to supersede the announced one comes too late: the
 * other workers enter the announced one, and the leader plans again from there. The exception is a
 * plan that revokes the announced one, which no worker can enter (elastic/plan/plan_change.h).
 * Within a step rank 0 may announce a plan that this rank has told its parent of
 * (protocol/plan_spread.h) and that another has replaced since. So the replaced plan is kept until
 * the step ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"

struct pending_plan {
    struct plan *plan; /* owned; NULL: none has arrived */
    struct plan *told; /* owned: replaced by `plan` after this rank had told of it; or NULL */
    uint64_t told_generation; /* the newest generation told to the parent in this step; 0: none */
    uint64_t awaited;         /* the announced generation; 0: none */
    uint64_t entered;         /* the generation whose links are being made; 0: none */
};

/** pending_plan_offer() - take @plan, newer than the plan in force, if it replaces the pending one;
 * false: the caller keeps it */
bool pending_plan_offer(struct pending_plan *pending, struct plan *plan);
/** pending_plan_begin_step() - note that a step begins, in which no plan was told yet */
void pending_plan_begin_step(struct pending_plan *pending);
/** pending_plan_tell() - note that this rank tells its parent that it has the plan of
 * @generation */
void pending_plan_tell(struct pending_plan *pending, uint64_t generation);
/** pending_plan_await() - note that the switch to @generation is announced */
void pending_plan_await(struct pending_plan *pending, uint64_t generation);
/** pending_plan_enter() - note that the worker has left its generation for @generation, and makes
 * its links: a planned plan that does not revoke it would part this worker from the others. 0: the
 * links are made
 */
void pending_plan_enter(struct pending_plan *pending, uint64_t generation);
/** pending_plan_is_here() - return whether the plan of the announced generation, or a newer one,
 * has arrived */
bool pending_plan_is_here(const struct pending_plan *pending);
/** pending_plan_take() - return the pending plan, owned by the caller, and forget it; or NULL */
struct plan *pending_plan_take(struct pending_plan *pending);
/** pending_plan_forget_planned() - drop a planned plan: its switch will not come */
void pending_plan_forget_planned(struct pending_plan *pending);
/** pending_plan_done() - release the owned plans */
void pending_plan_done(struct pending_plan *pending);
