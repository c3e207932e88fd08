/*
 * The metrics of a node. The node's metrics writer, its worker of lowest rank, writes them; a node
 * that joins late gets the missing lines from another node, or from the checkpoint that the run
 * continues from. Training has priority: a failed write raises an alarm.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/plan/straggler.h"
#include "worker/metrics/metrics.h"

struct status_report;
struct trainer;

/* The file of the node's metrics, and the numbers that its last line waits for. */
struct metrics_writer {
    struct metrics *file;   /* on the node's metrics writer only, else NULL */
    uint64_t last_step_ns;  /* duration of the last step, while its line waits for the evaluation;
                               else 0 */
    double validation_loss; /* the newest known; NaN: none yet */
    bool final_known;       /* the finished model was evaluated in this generation: */
    double final_loss;      /* its validation loss */
    bool replay_told;       /* a difference in a replayed step has been reported */
};

/** metrics_writer_open() - at the beginning of a generation, on the node's metrics writer: open the
 * file, add lines that the last writer did not write before it died, and after a dispute remove the
 * lines that may be wrong; the file is NULL elsewhere and after an error */
int metrics_writer_open(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** metrics_writer_exchange_histories() - send metrics to nodes that have none, as the plan says. A
 * donor takes part too: its node may be the only one that has them. -ECONNRESET, -ETIMEDOUT: the
 * links broke */
int metrics_writer_exchange_histories(struct trainer *trainer, unsigned rank,
                                      struct error *error) CHECK_RESULT;
/** metrics_writer_rewind() - remove the lines of the steps after @step, which may be wrong */
void metrics_writer_rewind(struct metrics_writer *metrics, struct status_report *report,
                           uint64_t step);
/** metrics_writer_waits() - true if the line of state->committed is that of the last step, and
 * waits for the evaluation of the finished model (worker/session/last_evaluation.c) */
bool metrics_writer_waits(const struct trainer *trainer);
/**
 * metrics_writer_record() - write the line of state->committed, a step that took @step_ns
 * @slowest: per stage; NULL: not known
 */
void metrics_writer_record(struct trainer *trainer, uint64_t step_ns,
                           const struct straggler_stage *slowest);
