#include "worker/session/status_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "elastic/recovery/holdings.h"
#include "worker/step/job_dataset.h"

#define PROGRESS_NS (NS_PER_SECOND / 4)

/* ---- the status ---- */

static void describe_lost(const struct trainer *trainer, struct worker_report *report)
{
    struct mesh_fault fault;

    assert(trainer->plan); /* a mesh exists only with the plan that it was made for */
    mesh_fault(trainer->mesh, &fault);
    for (unsigned i = 0; i < fault.lost_count && report->lost_count < REPORT_LOST_MAX; i++) {
        const struct plan_worker *lost = &trainer->plan->layout.workers[fault.lost_ranks[i]];
        snprintf(report->lost[report->lost_count++], sizeof(report->lost[0]), "%s/%u", lost->node,
                 lost->slot);
    }
    if (!report->text[0])
        snprintf(report->text, sizeof(report->text), "%.*s", (int)sizeof(report->text) - 1,
                 fault.text);
}

static void describe_unreached(const struct trainer *trainer, struct worker_report *report)
{
    const struct mesh_unreached *unreached = &trainer->unreached;

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
                      engine ? engine->rank : 0, report);
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
        .generation = phase == WORKER_PREPARED ? MAX(generation, trainer->prepared) : generation,
    };
    snprintf(ret_report->text, sizeof(ret_report->text), "%.*s", (int)sizeof(ret_report->text) - 1,
             text);
    ret_report->root = phase == WORKER_RUNNING && trainer->engine && trainer->engine->rank == 0;
    if (trainer->state)
        describe_held(trainer, ret_report);
    if (phase == WORKER_STUCK)
        describe_unreached(trainer, ret_report);
    if (phase == WORKER_STUCK && trainer->mesh)
        describe_lost(trainer, ret_report);
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
    trainer->phase = phase;
    control_server_send(trainer->control, message);
}

void status_report_send(struct trainer *trainer, enum worker_phase phase, const char *text)
{
    status_report_send_cause(trainer, phase, CAUSE_NONE, text);
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
    message->progress.pause_seconds = trainer->pause_seconds;
    snprintf(message->text, sizeof(message->text), "%s", text);
    control_server_send(trainer->control, message);
}

void status_report_alarm(struct trainer *trainer, enum alarm_about about, const char *text)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    if (!message || !alarms_set(&trainer->alarms, about, text))
        return;
    if (text[0])
        log_error("%s", text);
    message->type = CONTROL_ALARM;
    snprintf(message->text, sizeof(message->text), "%s", alarms_told(&trainer->alarms));
    control_server_send(trainer->control, message);
}

void status_report_checkpoint_alarm(struct trainer *trainer, const struct error *error)
{
    char text[CONTROL_TEXT_SIZE];

    log_warning("%s", error->text); /* with step and file, which the alarm lacks */
    if (error->code == -ECANCELED)
        return; /* a peer abandoned the checkpoint, and reports the cause */
    alarms_of_checkpoint(trainer->options->checkpoint_dir, error, text);
    status_report_alarm(trainer, ALARM_CHECKPOINT, text);
}

void status_report_progress(struct trainer *trainer, uint64_t step_ns, bool is_last)
{
    const struct state *state = trainer->state;
    AUTO_FREE struct control_message *message = NULL;
    uint64_t now_ns = clock_monotonic_ns();
    double seconds = (double)step_ns / 1e9;

    if (state->committed.evaluated)
        trainer->validation_loss = step_record_validation_loss(
            &state->committed,
            job_dataset_validation_counted(&trainer->spec.evaluate, &trainer->spec.train,
                                           trainer->dataset));
    if (trainer->final_known)
        trainer->validation_loss = trainer->final_loss;
    trainer->untold_ns = step_ns;
    if (now_ns - trainer->progress_ns < PROGRESS_NS && !is_last)
        return;
    message = calloc(1, sizeof(*message));
    if (!message)
        return;
    trainer->progress_ns = now_ns;
    trainer->untold_ns = 0;
    message->type = CONTROL_PROGRESS;
    message->progress = (struct control_progress){
        .generation = trainer->plan->generation,
        .step = state->applied_step,
        .frozen_layers = state->freeze.frozen_layers,
        .loss = step_record_loss(
            &state->committed,
            job_dataset_counted(&trainer->spec.train, trainer->dataset, state->committed.step)),
        .grad_norm = step_record_norm(&state->committed),
        .validation_loss = trainer->validation_loss,
        .step_seconds = seconds,
        .tokens_per_second =
            (double)job_spec_tokens_per_step(&trainer->spec.model, &trainer->spec.train) / seconds,
        .compute_seconds = (double)trainer->engine->timing.compute_ns / 1e9,
        .wait_seconds = (double)trainer->engine->timing.wait_ns / 1e9,
        .pause_seconds = trainer->pause_seconds,
        .memory_bytes = footprint_peak_bytes(&trainer->footprint, trainer->dataset),
    };
    if (trainer->straggler)
        message->progress.verdict_count =
            straggler_verdicts(trainer->straggler, message->progress.verdicts);
    control_server_send(trainer->control, message);
}

void status_report_untold(struct trainer *trainer)
{
    /* The record is gone if the state was read again from a checkpoint or another worker. */
    if (trainer->untold_ns && trainer->engine && trainer->state->committed.step > 0)
        status_report_progress(trainer, trainer->untold_ns, true);
}

void status_report_checkpoint(struct trainer *trainer)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    struct error error = {0};
    int status;

    if (!message)
        return;
    status = snapshot_take_result(trainer->snapshot, &message->checkpoint, &error);
    if (status < 0)
        status_report_checkpoint_alarm(trainer, &error);
    if (status != 1)
        return;
    message->type = CONTROL_CHECKPOINT;
    control_server_send(trainer->control, message);
    control_message_done(message);
    status_report_alarm(trainer, ALARM_CHECKPOINT, snapshot_warning(trainer->snapshot));
}
