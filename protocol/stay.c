#include "protocol/stay.h"

#include <assert.h>

#include "protocol/final_checkpoint.h"

static void go_on(struct stay *stay)
{
    if (stay->applied_step < stay->steps)
        stay->action = STAY_STEP;
    else
        stay->action = stay->evaluates ? STAY_EVALUATE : STAY_FINISH;
}

void stay_begin(struct stay *stay, const struct plan *plan, uint64_t applied_step, uint64_t steps,
                bool evaluates)
{
    *stay = (struct stay){
        .plan = plan, .steps = steps, .evaluates = evaluates, .applied_step = applied_step};
    go_on(stay);
}

static void await_plan(struct stay *stay, uint64_t announced, bool early)
{
    stay->announced = announced;
    stay->early = early;
    stay->action = STAY_AWAIT_PLAN;
}

void stay_stepped(struct stay *stay, uint64_t announced)
{
    assert(stay->action == STAY_STEP);
    stay->applied_step++;
    stay->stepped = true;
    if (announced && stay->applied_step < stay->steps)
        await_plan(stay, announced, false);
    else
        go_on(stay);
}

void stay_evaluated(struct stay *stay)
{
    assert(stay->action == STAY_EVALUATE);
    stay->action = STAY_FINISH;
}

void stay_left(struct stay *stay, uint64_t early)
{
    assert(stay->action == STAY_STEP || stay->action == STAY_EVALUATE);
    if (early)
        await_plan(stay, early, true);
    else
        stay->action = STAY_BREAK;
}

void stay_has_plan(struct stay *stay, const struct plan *next)
{
    assert(stay->action == STAY_AWAIT_PLAN);
    if (!next)
        stay->action = STAY_BREAK;
    else if (next->layout.worker_count > 0)
        stay->action = STAY_SWITCH;
    else if (!stay->early)
        stay->action = STAY_FINISH;
    else
        stay->action = final_checkpoint_is_needed(stay->plan, stay->applied_step)
                           ? STAY_FINISH_EARLY
                           : STAY_LEAVE;
}
