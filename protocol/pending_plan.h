/*
 * The plan that a worker is to go over to: the newest that its firnd has sent.
 *
 * All workers must enter the same generation. At a switch that a commit, or rank 0 within a step,
 * has announced, a planned plan that was to supersede the announced one comes too late: the others
 * enter that, and the leader plans again from there, unless it revokes the announced one, which
 * nobody can enter (elastic/plan/plan_change.h). Within a step rank 0 may announce a plan that
 * this rank has told its parent of (protocol/plan_spread.h) and that another has replaced since: so
 * that one is kept until the step ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"

struct pending_plan {
    struct plan *plan; /* owned; NULL: none has arrived */
    struct plan *told; /* owned: replaced by `plan` after this rank had told of it; or NULL */
    uint64_t told_generation; /* that this rank has told of in this step; 0: none */
    uint64_t awaited;         /* the generation that is announced; 0: none */
    uint64_t entered;         /* whose links are being made; 0: none */
};

/** pending_plan_offer() - take @plan, newer than the plan in force, if it replaces the pending one;
 * false: it does not, and stays with the caller */
bool pending_plan_offer(struct pending_plan *pending, struct plan *plan);
/** pending_plan_begin_step() - nothing is told of in this step yet */
void pending_plan_begin_step(struct pending_plan *pending);
/** pending_plan_tell() - this rank tells its parent that it has the plan of @generation */
void pending_plan_tell(struct pending_plan *pending, uint64_t generation);
/** pending_plan_await() - the switch to @generation is announced */
void pending_plan_await(struct pending_plan *pending, uint64_t generation);
/** pending_plan_enter() - the worker has left its generation for @generation, and makes its links:
 * a planned plan that does not revoke it would part this worker from the others. 0: the links are
 * made
 */
void pending_plan_enter(struct pending_plan *pending, uint64_t generation);
/** pending_plan_is_here() - return whether the plan of the announced generation, or a newer one,
 * has arrived */
bool pending_plan_is_here(const struct pending_plan *pending);
/** pending_plan_take() - return the pending plan, owned by the caller, and forget it; or NULL */
struct plan *pending_plan_take(struct pending_plan *pending);
/** pending_plan_forget_planned() - drop a planned plan: its switch will not come */
void pending_plan_forget_planned(struct pending_plan *pending);
/** pending_plan_done() - release what is owned */
void pending_plan_done(struct pending_plan *pending);
