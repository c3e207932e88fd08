/*
 * What firnd is told: where this worker stands and what it holds, how training goes, and what an
 * operator must see. A message for which there is no memory is left out, with a line in the log.
 */
#pragma once

#include "worker/session/trainer.h"

/** telling_status() - that it is in @phase; with @text, "" where there is nothing to say, and with
 * what the leader must know to decide: the step, the units held, who was lost */
void telling_status(struct trainer *trainer, enum worker_phase phase, const char *text);

/** telling_cause() - the same of a worker that does not go on, and why */
void telling_cause(struct trainer *trainer, enum worker_phase phase, enum worker_cause cause,
                   const char *text);

/** telling_event() - a line for people */
void telling_event(struct trainer *trainer, const char *text);
/** telling_alarm() - something that an operator must see; "" clears it */
void telling_alarm(struct trainer *trainer, enum alarm_about about, const char *text);
/** telling_checkpoint_alarm() - this worker's part in a checkpoint has failed */
void telling_checkpoint_alarm(struct trainer *trainer, const struct error *error);
/** telling_progress() - of the step that was just applied and took @step_ns; at most four times a
 * second, and after the last one of a generation */
void telling_progress(struct trainer *trainer, uint64_t step_ns, bool is_last);
/** telling_untold() - the progress of the last step, if it came too soon after another one's */
void telling_untold(struct trainer *trainer);
/** telling_checkpoint() - rank 0: pass on the outcome of a commit, if there is one */
void telling_checkpoint(struct trainer *trainer);
