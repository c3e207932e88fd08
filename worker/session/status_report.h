/*
 * What firnd is told: where this worker stands and what it holds, how training goes, and what an
 * operator must see. A message for which there is no memory is left out, with a line in the log.
 */
#pragma once

#include "worker/session/trainer.h"

/** status_report_send() - that it is in @phase; with @text, "" where there is nothing to say, and
 * with what the leader must know to decide: the step, the units held, who was lost */
void status_report_send(struct trainer *trainer, enum worker_phase phase, const char *text);

/** status_report_send_cause() - the same of a worker that does not go on, and why */
void status_report_send_cause(struct trainer *trainer, enum worker_phase phase,
                              enum worker_cause cause, const char *text);

/** status_report_event() - a line for people */
void status_report_event(struct trainer *trainer, const char *text);
/** status_report_alarm() - something that an operator must see; "" clears it */
void status_report_alarm(struct trainer *trainer, enum alarm_about about, const char *text);
/** status_report_checkpoint_alarm() - this worker's part in a checkpoint has failed */
void status_report_checkpoint_alarm(struct trainer *trainer, const struct error *error);
/** status_report_progress() - of the step that was just applied and took @step_ns; at most four
 * times a second, and after the last one of a generation */
void status_report_progress(struct trainer *trainer, uint64_t step_ns, bool is_last);
/** status_report_untold() - the progress of the last step, if it came too soon after another one's
 */
void status_report_untold(struct trainer *trainer);
/** status_report_checkpoint() - rank 0: pass on the outcome of a commit, if there is one */
void status_report_checkpoint(struct trainer *trainer);
