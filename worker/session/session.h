/*
 * Training within one generation: step after step, with metrics, progress and checkpoints, until
 * the commit announces a switch, the links break, or the job ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/copies/checkpoint_writers.h"
#include "elastic/plan/straggler.h"
#include "protocol/checkpoint_calendar.h"
#include "protocol/checkpoint_vote.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/session/divergence.h"
#include "worker/step/commit_round.h"
#include "worker/step/dispute_round.h"

struct trainer;

/* The memory of the commits of a generation, and of disputes across generations. */
struct session_commit {
    bool first;            /* the first commit of this generation is still to come */
    uint64_t began_ns;     /* monotonic; of the step, or of its part in this generation */
    uint64_t before_ns;    /* duration of the step's parts in generations before; 0: none */
    uint64_t last_ns;      /* monotonic; of the last commit, or of the end of a generation within a
                              step if that was planned or a part of the step is kept; 0 before the
                              first step */
    uint64_t stopped_ns;   /* when the last step ended without a commit */
    uint64_t turn_ns;      /* engine_turn_ns() of that step, until the next links are up; 0: none */
    double switch_seconds; /* pause of the last planned change; 0: none yet */
    struct straggler *straggler; /* on rank 0, if stragglers are evicted; else NULL */
    struct dispute_memory disputes;
    uint64_t agreed_step; /* the last boundary at which all units were compared, and were equal */
    struct divergence divergence;
};

/* The checkpoints of this worker, and firnd's answers on them. */
struct session_checkpoints {
    struct snapshot *snapshot;
    struct checkpoint_calendar calendar; /* of this generation */
    struct checkpoint_writers writers;   /* ranks that can write, the same at all ranks */
    struct checkpoint_vote vote;         /* on the checkpoint begun last in this generation */
    uint64_t recorded_step;              /* of the newest checkpoint that firnd has recorded */
    unsigned unanswered;   /* on rank 0: checkpoints on disk since firnd's last answer */
    uint64_t refused_step; /* of a checkpoint that firnd did not record: another generation is in
                              force */
    uint64_t writing_step, writing_since_ns; /* of this rank's share, for the trace; 0: none */
};

enum session_outcome {
    SESSION_SWITCH,
    SESSION_BROKEN,
    SESSION_LEFT,
    SESSION_FINISHED,
    SESSION_STOPPED
};

/** session_open() - create the engine and, on the node's metrics writer, open the metrics; links
 * are up and state is held */
int session_open(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** session_train() - train until the generation ends; SESSION_BROKEN sets @error */
enum session_outcome session_train(struct trainer *trainer, struct error *error);
/**
 * session_evaluate_last() - after the last step: measure the validation loss of the finished model
 * on all ranks together, and write the line of the last step, which has waited for it
 * @slowest: of that step; NULL: not known
 *
 * Errors as engine_compute() and commit_agreement_run(); the line is written without the loss where
 * this worker is to stop (worker/session/last_evaluation.c)
 */
int session_evaluate_last(struct trainer *trainer, const struct straggler_stage *slowest,
                          struct error *error) CHECK_RESULT;
/** session_write_last_line() - write the line of the last step, which has waited for the last
 * evaluation; false: it is in the checkpoint that this worker has read */
bool session_write_last_line(struct trainer *trainer, const struct straggler_stage *slowest);
/** session_finish() - write and record the checkpoint of the present boundary, all ranks together;
 * return @then when it is recorded (worker/session/final_checkpoint.c) */
enum session_outcome session_finish(struct trainer *trainer, enum session_outcome then,
                                    struct error *error);
