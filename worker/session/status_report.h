/*
 * Reports to firnd: this worker's phase and holdings, the progress of training, and alarms for an
 * operator. A message for which there is no memory is dropped, with a line in the log.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "elastic/messages/report.h"
#include "worker/session/alarms.h"
#include "worker/session/control_server.h"

struct trainer;
struct worker_options;

/* The last reports, and data for the next one that is kept nowhere else. */
struct status_report {
    struct control_server *control;
    enum worker_phase phase;
    struct alarms alarms;
    double pause_seconds; /* from the last commit of a generation to the next one's first compute */
    uint64_t progress_ns; /* time of the last progress report */
    uint64_t held_back_ns; /* duration of the last step, if the rate limit held its report back;
                              else 0 */
};

/** status_report_send() - report @phase with @text, or "", and with the data that the leader
 * decides on: the step, the units held, the ranks lost */
void status_report_send(struct trainer *trainer, enum worker_phase phase, const char *text);

/** status_report_running() - report RUNNING once, when all state of this worker is here: units may
 * be on their way while it computes */
void status_report_running(struct trainer *trainer);

/** status_report_send_cause() - as status_report_send(), for a worker that stops, with the cause */
void status_report_send_cause(struct trainer *trainer, enum worker_phase phase,
                              enum worker_cause cause, const char *text);

/** status_report_event() - send a line for people */
void status_report_event(struct trainer *trainer, const char *text);
/** status_report_alarm() - set an alarm for the operator; "" clears it */
void status_report_alarm(struct status_report *report, enum alarm_about about, const char *text);
/** status_report_checkpoint_alarm() - set the alarm of a failure in this worker's part in a
 * checkpoint */
void status_report_checkpoint_alarm(const struct worker_options *options,
                                    struct status_report *report, const struct error *error);
/** status_report_progress() - report the step just applied, which took @step_ns; at most four times
 * a second, and always with @at_once: the last step of a generation, or one after which layers
 * freeze */
void status_report_progress(struct trainer *trainer, uint64_t step_ns, bool at_once);
/** status_report_held_back() - report the progress of the last step, if the rate limit held it back
 */
void status_report_held_back(struct trainer *trainer);
/** status_report_checkpoint() - on rank 0: report the outcome of a commit, if there is one
 * @is_within_step: the step after the newest boundary is being computed */
void status_report_checkpoint(struct trainer *trainer, bool is_within_step);
