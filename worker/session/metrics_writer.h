/*
 * The metrics of a node. Its scribe, the worker of lowest rank there, writes them; a node that
 * comes late gets the lines that it lacks from another one, or from the checkpoint that the run
 * goes on from. Training matters more: what cannot be written raises an alarm.
 */
#pragma once

#include "worker/session/trainer.h"

/** metrics_writer_open() - at the begin of a generation: the file, if this is the node's scribe,
 * and what was not written when the last one died, without lines that are not to be believed since
 * replicas were found to differ; trainer->metrics is NULL elsewhere and after an error */
int metrics_writer_open(struct trainer *trainer, unsigned rank, struct error *error) CHECK_RESULT;
/** metrics_writer_exchange_histories() - metrics to nodes that have none, as the plan says. A donor
 * takes part too: its node may be the only one that has them. -ECONNRESET, -ETIMEDOUT: the links
 * broke */
int metrics_writer_exchange_histories(struct trainer *trainer, unsigned rank,
                                      struct error *error) CHECK_RESULT;
/** metrics_writer_rewind() - what was written of the steps after @step is not to be believed */
void metrics_writer_rewind(struct trainer *trainer, uint64_t step);
/** metrics_writer_waits() - the line of state->committed is that of the last step, and waits for
 * the evaluation of the finished model (worker/session/last_evaluation.c) */
bool metrics_writer_waits(const struct trainer *trainer);
/**
 * metrics_writer_record() - the line of state->committed, which took @step_ns
 * @slowest: of each stage; NULL: not known
 */
void metrics_writer_record(struct trainer *trainer, uint64_t step_ns,
                           const struct straggler_stage *slowest);
