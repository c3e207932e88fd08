#include "worker/session/status_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/mesh/frame.h"
#include "elastic/recovery/holdings.h"
#include "worker/session/trainer.h"
#include "worker/state/handover.h"
#include "worker/step/job_dataset.h"

#define PROGRESS_NS (NS_PER_SECOND / 4)

/* ---- the status ---- */

static void describe_lost(const struct session_links *links, const struct plan *plan,
                          struct worker_report *report)
{
    struct mesh_fault fault;

    assert(plan); /* a mesh exists only with the plan that it was made for */
    mesh_fault(links->mesh, &fault);
    for (unsigned i = 0; i < fault.lost_count && report->lost_count < REPORT_LOST_MAX; i++) {
        const struct plan_worker *lost = &plan->layout.workers[fault.lost_ranks[i]];
        snprintf(report->lost[report->lost_count++], sizeof(report->lost[0]), "%s/%u", lost->node,
                 lost->slot);
    }
    if (!report->text[0])
        snprintf(report->text, sizeof(report->text), "%.*s", (int)sizeof(report->text) - 1,
                 fault.text);
}

static void describe_unreached(const struct session_links *links, struct worker_report *report)
{
    const struct mesh_unreached *unreached = &links->unreached;

    report->unreached_count = MIN(unreached->count, (unsigned)REPORT_UNREACHED_MAX);
    memcpy(report->unreached, unreached->ranks,
           report->unreached_count * sizeof(report->unreached[0]));
}

static void describe_units(const struct trainer *trainer, struct worker_report *report)
{
    const struct state *state = trainer->state;
    const struct engine *engine = trainer->engine;
    bool held[STEP_RECORD_UNITS_MAX];

    state_list_held(state, held);
    holdings_describe(held, state->unit_count, engine ? engine->plan : NULL,
                      engine ? engine->part.rank : 0, report);
}

static void describe_held(const struct trainer *trainer, struct worker_report *report)
{
    const struct state *state = trainer->state;

    report->applied_step = state->applied_step;
    report->frozen_layers = state->freeze.frozen_layers;
    report->holds = state->holds;
    if (state->holds)
        report->record = state->hold;
    else if (state->committed.step == state->applied_step && state->applied_step > 0)
        report->record = state->committed;
    describe_units(trainer, report);
}

static void describe(const struct trainer *trainer, enum worker_phase phase, const char *text,
                     struct worker_report *ret_report)
{
    uint64_t generation = trainer->plan ? trainer->plan->generation : 0;

    *ret_report = (struct worker_report){
        .slot = trainer->options->slot,
        .instance = trainer->instance,
        .phase = phase,
        .generation =
            phase == WORKER_PREPARED ? MAX(generation, trainer->commands.prepared) : generation,
        .links = frame_version(),
    };
    snprintf(ret_report->text, sizeof(ret_report->text), "%.*s", (int)sizeof(ret_report->text) - 1,
             text);
    ret_report->root =
        phase == WORKER_RUNNING && trainer->engine && trainer->engine->part.rank == 0;
    if (trainer->state)
        describe_held(trainer, ret_report);
    if (phase == WORKER_STUCK)
        describe_unreached(&trainer->links, ret_report);
    if (phase == WORKER_STUCK && trainer->links.mesh)
        describe_lost(&trainer->links, trainer->plan, ret_report);
}

void status_report_send_cause(struct trainer *trainer, enum worker_phase phase,
                              enum worker_cause cause, const char *text)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    if (!message) {
        log_error("no memory for a status");
        return;
    }
    message->type = CONTROL_STATUS;
    describe(trainer, phase, text, &message->status);
    message->status.cause = cause;
    trainer->report.phase = phase;
    control_server_send(trainer->report.control, message);
}

void status_report_send(struct trainer *trainer, enum worker_phase phase, const char *text)
{
    status_report_send_cause(trainer, phase, CAUSE_NONE, text);
}

void status_report_running(struct trainer *trainer)
{
    bool arrived = !trainer->handover || handover_has_arrived(trainer->handover);

    if (trainer->report.phase != WORKER_RUNNING && arrived)
        status_report_send(trainer, WORKER_RUNNING, "");
}

/* ---- the rest ---- */

void status_report_event(struct trainer *trainer, const char *text)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    log_info("%s", text);
    if (!message)
        return;
    message->type = CONTROL_EVENT;
    message->progress.generation = trainer->plan->generation;
    message->progress.step = trainer->state->applied_step;
    message->progress.frozen_layers = trainer->state->freeze.frozen_layers;
    message->progress.pause_seconds = trainer->report.pause_seconds;
    snprintf(message->text, sizeof(message->text), "%s", text);
    control_server_send(trainer->report.control, message);
}

void status_report_alarm(struct status_report *report, enum alarm_about about, const char *text)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    if (!message || !alarms_set(&report->alarms, about, text))
        return;
    if (text[0])
        log_error("%s", text);
    message->type = CONTROL_ALARM;
    snprintf(message->text, sizeof(message->text), "%s", alarms_shown(&report->alarms));
    control_server_send(report->control, message);
}

void status_report_checkpoint_alarm(const struct worker_options *options,
                                    struct status_report *report, const struct error *error)
{
    char text[CONTROL_TEXT_SIZE];

    log_warning("%s", error->text); /* with step and file, which the alarm lacks */
    if (error->code == -ECANCELED)
        return; /* a peer abandoned the checkpoint, and reports the cause */
    alarms_of_checkpoint(options->checkpoint_dir, error, text);
    status_report_alarm(report, ALARM_CHECKPOINT, text);
}

void status_report_progress(struct trainer *trainer, uint64_t step_ns, bool at_once)
{
    const struct state *state = trainer->state;
    AUTO_FREE struct control_message *message = NULL;
    uint64_t now_ns = clock_monotonic_ns();
    double seconds = (double)step_ns / 1e9;

    if (state->committed.evaluated)
        trainer->metrics.validation_loss = step_record_validation_loss(
            &state->committed,
            job_dataset_validation_counted(&trainer->spec.evaluate, &trainer->spec.train,
                                           trainer->dataset));
    if (trainer->metrics.final_known)
        trainer->metrics.validation_loss = trainer->metrics.final_loss;
    trainer->report.held_back_ns = step_ns;
    if (now_ns - trainer->report.progress_ns < PROGRESS_NS && !at_once)
        return;
    message = calloc(1, sizeof(*message));
    if (!message)
        return;
    trainer->report.progress_ns = now_ns;
    trainer->report.held_back_ns = 0;
    message->type = CONTROL_PROGRESS;
    message->progress = (struct control_progress){
        .generation = trainer->plan->generation,
        .step = state->applied_step,
        .frozen_layers = state->freeze.frozen_layers,
        .kept = frozen_prefix_kept(trainer->engine),
        .loss = step_record_loss(
            &state->committed,
            job_dataset_counted(&trainer->spec.train, trainer->dataset, state->committed.step)),
        .grad_norm = step_record_norm(&state->committed),
        .validation_loss = trainer->metrics.validation_loss,
        .step_seconds = seconds,
        .tokens_per_second =
            (double)job_spec_tokens_per_step(&trainer->spec.model, &trainer->spec.train) / seconds,
        .compute_seconds = (double)trainer->engine->timing.compute_ns / 1e9,
        .wait_seconds = (double)trainer->engine->timing.wait_ns / 1e9,
        .pause_seconds = trainer->report.pause_seconds,
        .memory_bytes = footprint_peak_bytes(&trainer->device.footprint, trainer->dataset),
    };
    if (trainer->commit.straggler)
        message->progress.judgement_count =
            straggler_judgements(trainer->commit.straggler, message->progress.judgements);
    control_server_send(trainer->report.control, message);
}

void status_report_held_back(struct trainer *trainer)
{
    /* The record is gone if the state was read again from a checkpoint or another worker. */
    if (trainer->report.held_back_ns && trainer->engine && trainer->state->committed.step > 0)
        status_report_progress(trainer, trainer->report.held_back_ns, true);
}

void status_report_checkpoint(struct trainer *trainer, bool is_within_step)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    struct error error = {0};
    int status;

    if (!message)
        return;
    status = snapshot_take_result(trainer->checkpoints.snapshot, &message->checkpoint, &error);
    if (status < 0)
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
    if (status != 1)
        return;
    message->type = CONTROL_CHECKPOINT;
    message->checkpoint.is_unproven =
        is_within_step && message->checkpoint.step == trainer->state->applied_step;
    control_server_send(trainer->report.control, message);
    control_message_done(message);
    trainer->checkpoints.unanswered++;
    status_report_alarm(&trainer->report, ALARM_CHECKPOINT,
                        snapshot_warning(trainer->checkpoints.snapshot));
}
