/*
 * Training within one generation: step after step, with metrics, progress and checkpoints, until
 * the commit announces a switch, the links break, or the job ends.
 */
#pragma once

#include "worker/session/trainer.h"

enum session_outcome {
    SESSION_SWITCH,
    SESSION_BROKEN,
    SESSION_LEFT,
    SESSION_FINISHED,
    SESSION_STOPPED
};

/** session_open() - the engine and, on the node's scribe, the metrics; links are up and state is
 * held */
int session_open(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** session_train() - until the generation ends; SESSION_BROKEN leaves code and text in @error */
enum session_outcome session_train(struct trainer *trainer, struct error *error);
/** session_agree() - step_commit_run() with what the engine's check of the state has found, and,
 * where replicas differ, the end of their dispute, also where the links broke before all heard of
 * it: never STEP_COMMIT_DISPUTED */
int session_agree(struct trainer *trainer, bool closing, struct step_commit_up *up,
                  const struct step_commit_root *root, struct step_commit_down *ret_down,
                  struct error *error) CHECK_RESULT;
/** session_word_on_checkpoint() - what this rank says of a share that failed */
void session_word_on_checkpoint(const struct trainer *trainer, struct step_commit_up *up);
/** session_hear_of_checkpoint() - of all ranks', every time that it comes */
void session_hear_of_checkpoint(struct trainer *trainer, const struct step_commit_down *down);
/** session_begin_checkpoint() - snapshot_begin() by the writers that were chosen last; its errors
 */
int session_begin_checkpoint(struct trainer *trainer, struct error *error) CHECK_RESULT;
/** session_give_up_checkpoint() - some worker could not do its part in the one of @failed_step:
 * what this one wrote of it goes. Whose part it was has raised its own alarm; the job's is rank 0's
 */
void session_give_up_checkpoint(struct trainer *trainer, uint64_t failed_step);
/**
 * session_evaluate_last() - after the last step: measure the validation loss of the finished model
 * on all ranks together, and write the line of the last step, which has waited for it
 * @slowest: of that step; NULL: not known
 * Errors as engine_compute() and session_agree(); the line is written without it where this worker
 * is to stop (worker/session/last_evaluation.c)
 */
int session_evaluate_last(struct trainer *trainer, const struct straggler_stage *slowest,
                          struct error *error) CHECK_RESULT;
/** session_finish() - write and record the checkpoint of the present boundary, all ranks together;
 * @then when that is done (worker/session/final_checkpoint.c) */
enum session_outcome session_finish(struct trainer *trainer, enum session_outcome then,
                                    struct error *error);
