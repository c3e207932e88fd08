#include "protocol/final_checkpoint.h"

#include <assert.h>

bool final_checkpoint_is_needed(const struct plan *plan, uint64_t applied_step)
{
    const struct plan_start *start = &plan->start;
    bool is_as_read = start->source == PLAN_SOURCE_CHECKPOINT && applied_step == start->resume_step;

    return applied_step > 0 && !is_as_read;
}

void final_checkpoint_begin(struct final_checkpoint *final, uint64_t step, bool commits)
{
    *final = (struct final_checkpoint){
        .step = step, .commits = commits, .action = FINAL_CHECKPOINT_SETTLE};
}

static void run_round(struct final_checkpoint *final, enum final_checkpoint_action after)
{
    assert(final->action == after);
    final->action = FINAL_CHECKPOINT_ROUND;
}

void final_checkpoint_settled(struct final_checkpoint *final, bool is_committed)
{
    run_round(final, FINAL_CHECKPOINT_SETTLE);
    final->round = FINAL_CHECKPOINT_BEFORE;
    final->is_committed = is_committed;
}

void final_checkpoint_written(struct final_checkpoint *final)
{
    run_round(final, FINAL_CHECKPOINT_WRITE);
    final->round = FINAL_CHECKPOINT_SHARES;
}

void final_checkpoint_looked(struct final_checkpoint *final)
{
    run_round(final, FINAL_CHECKPOINT_COMMIT);
    final->round = FINAL_CHECKPOINT_RECORD;
}

void final_checkpoint_given_up(struct final_checkpoint *final)
{
    run_round(final, FINAL_CHECKPOINT_GIVE_UP);
    final->round = FINAL_CHECKPOINT_GIVEN_UP;
}

uint64_t final_checkpoint_report(const struct final_checkpoint *final, uint64_t durable_step,
                                 uint64_t recorded_step)
{
    switch (final->round) {
    case FINAL_CHECKPOINT_BEFORE:
        return final->commits && !final->is_committed ? 0 : final->step;
    case FINAL_CHECKPOINT_SHARES:
        return durable_step;
    case FINAL_CHECKPOINT_RECORD:
        return final->commits && recorded_step < final->step ? 0 : final->step;
    case FINAL_CHECKPOINT_GIVEN_UP:
        break;
    }
    return 0;
}

void final_checkpoint_hear(struct final_checkpoint *final, const struct step_commit_down *down)
{
    bool failed = down->checkpoint_failed == final->step;
    bool durable = down->checkpoint_durable == final->step && !failed;

    assert(final->action == FINAL_CHECKPOINT_ROUND);
    switch (final->round) {
    case FINAL_CHECKPOINT_BEFORE:
        final->action = durable ? FINAL_CHECKPOINT_COMMIT : FINAL_CHECKPOINT_WRITE;
        break;
    case FINAL_CHECKPOINT_SHARES:
        final->action = durable ? FINAL_CHECKPOINT_COMMIT : FINAL_CHECKPOINT_GIVE_UP;
        break;
    case FINAL_CHECKPOINT_RECORD:
        final->action = durable  ? FINAL_CHECKPOINT_DONE
                        : failed ? FINAL_CHECKPOINT_GIVE_UP
                                 : FINAL_CHECKPOINT_COMMIT;
        break;
    case FINAL_CHECKPOINT_GIVEN_UP:
        final->action = FINAL_CHECKPOINT_RETRY;
        break;
    }
}
