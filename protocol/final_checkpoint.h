/*
 * The checkpoint at the end of a job or of its stay on the cluster: all ranks write the boundary's
 * checkpoint together, rank 0 commits it and has firnd record it, and no rank leaves before it is
 * recorded. There are no more step commits to carry the ranks' reports, so the ranks repeat rounds
 * without a step (protocol/step_commit.h, closing).
 *
 * A full disk does not end a run that has cost days: a checkpoint that fails on one rank is given
 * up on all ranks, and tried again. No rank writes again before every rank has removed the files of
 * the failed attempt, which takes a separate round.
 *
 * A stay that ends within a step may find a checkpoint of the same boundary in the middle of its
 * commit. No rank touches the files before rank 0 has seen the end of that commit, which takes the
 * first round: if it succeeded, nothing is written again.
 *
 * A state machine without I/O: its action is the next task of its driver, followed by the call that
 * the action names.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/plan/plan.h"
#include "protocol/step_commit.h"

enum final_checkpoint_action {
    FINAL_CHECKPOINT_SETTLE,  /* rank 0: wait until no commit is in flight; then
                                 final_checkpoint_settled() */
    FINAL_CHECKPOINT_WRITE,   /* write this rank's share, until it is durable or has failed; then
                                 final_checkpoint_written() */
    FINAL_CHECKPOINT_ROUND,   /* run a round that reports final_checkpoint_report(); then
                                 final_checkpoint_hear() */
    FINAL_CHECKPOINT_COMMIT,  /* rank 0: look after the commit; others: after their copies; then
                                 final_checkpoint_looked() */
    FINAL_CHECKPOINT_GIVE_UP, /* remove this rank's files; then final_checkpoint_given_up() */
    FINAL_CHECKPOINT_RETRY,   /* forget the attempt, rest, and begin again */
    FINAL_CHECKPOINT_DONE,    /* the checkpoint is recorded, and every rank knows it */
};

struct final_checkpoint {
    uint64_t step; /* the boundary */
    bool commits;  /* this is rank 0 */
    enum final_checkpoint_action action;
    bool is_committed; /* rank 0: this generation has already committed the boundary */
    enum {
        FINAL_CHECKPOINT_BEFORE,   /* the round tells whether it is committed already */
        FINAL_CHECKPOINT_SHARES,   /* ... whether all shares are durable */
        FINAL_CHECKPOINT_RECORD,   /* ... whether rank 0 has it recorded */
        FINAL_CHECKPOINT_GIVEN_UP, /* ... that every rank has removed its files */
    } round;
};

/** final_checkpoint_is_needed() - return whether the state after @applied_step is to be written
 * before the generation of @plan ends; false: the state is unchanged since the generation began
 * from a checkpoint or from nothing. The same on all ranks */
bool final_checkpoint_is_needed(const struct plan *plan, uint64_t applied_step);
/** final_checkpoint_begin() - begin an attempt at the boundary of @step */
void final_checkpoint_begin(struct final_checkpoint *final, uint64_t step, bool commits);
/** final_checkpoint_settled() - note that no commit is in flight here
 * @is_committed: this generation has committed the boundary; on rank 0 */
void final_checkpoint_settled(struct final_checkpoint *final, bool is_committed);
void final_checkpoint_written(struct final_checkpoint *final);
void final_checkpoint_looked(struct final_checkpoint *final);
void final_checkpoint_given_up(struct final_checkpoint *final);
/** final_checkpoint_report() - return the durable step that this rank reports in the round
 * @durable_step: of its share; @recorded_step: of the newest checkpoint that firnd has recorded, on
 * rank 0 */
uint64_t final_checkpoint_report(const struct final_checkpoint *final, uint64_t durable_step,
                                 uint64_t recorded_step);
/** final_checkpoint_hear() - take the answer of the round */
void final_checkpoint_hear(struct final_checkpoint *final, const struct step_commit_down *down);
