#include "worker/session/metrics_writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "elastic/job/learning_rate.h"
#include "worker/device/tags.h"
#include "worker/metrics/history.h"
#include "worker/session/generation.h"
#include "worker/session/restored_folder.h"
#include "worker/session/status_report.h"
#include "worker/step/job_dataset.h"

bool metrics_writer_waits(const struct trainer *trainer)
{
    return trainer->spec.evaluate.every > 0 && !trainer->metrics.final_known &&
           trainer->state->committed.step == trainer->spec.train.steps;
}

/* Report only the first such step of this process: all later ones differ too. Unlike devices round
 * differently, and a job may allow them. */
static void tell_replay(struct trainer *trainer, const struct error *difference)
{
    if (trainer->metrics.replay_told || trainer->spec.elastic.mixed_devices)
        return;
    trainer->metrics.replay_told = true;
    status_report_event(trainer, difference->text);
    status_report_alarm(&trainer->report, ALARM_REPLAY,
                        "a step that was replayed came out different, so this run is not exact: "
                        "its events have the step and both results; look for a faulty device, or "
                        "for one of another kind");
}

void metrics_writer_record(struct trainer *trainer, uint64_t step_ns,
                           const struct straggler_stage *slowest)
{
    const struct state *state = trainer->state;
    const struct plan *plan = trainer->plan;
    const struct step_record *record = &state->committed;
    uint64_t counted = job_dataset_counted(&trainer->spec.train, trainer->dataset, record->step);
    struct error error = {0};
    struct metrics_line line = {
        .job = trainer->spec.name,
        .step = record->step,
        .loss = step_record_loss(record, counted),
        .grad_norm = step_record_norm(record),
        .lr = learning_rate_at(&trainer->spec.train, record->step),
        .frozen_layers = state->freeze.frozen_layers,
        .generation = plan->generation,
        .stages = plan->layout.stage_count,
        .replicas = plan->layout.replica_count,
        .workers = plan->layout.worker_count,
        .tokens =
            record->step * job_spec_tokens_per_step(&trainer->spec.model, &trainer->spec.train),
        .masked = trainer->spec.data.mask.count > 0,
        .counted = counted,
        .step_ms = (double)step_ns / 1e6,
        .unix_ns = clock_unix_ns(),
        .evaluated = record->evaluated,
        .plasticity = record->has_similarities ? state->freeze.plasticity.shown : 0,
        .final_evaluated =
            trainer->metrics.final_known && record->step == trainer->spec.train.steps,
        .final_loss = trainer->metrics.final_loss,
        .plan = plan,
        .slowest = slowest,
    };

    if (!trainer->metrics.file)
        return;
    if (trainer->engine) { /* NULL: the step is of an earlier generation */
        const struct frozen_outputs_counts *frozen = &trainer->engine->prefix.counts;
        line.frozen_loaded = frozen->loaded;
        line.frozen_computed = frozen->computed + frozen->continued;
    }
    if (record->evaluated)
        line.val_loss = step_record_validation_loss(
            record, job_dataset_validation_counted(&trainer->spec.evaluate, &trainer->spec.train,
                                                   trainer->dataset));
    int status = metrics_append(trainer->metrics.file, &line, &error);
    if (status == -EILSEQ)
        tell_replay(trainer, &error);
    else
        status_report_alarm(&trainer->report, ALARM_METRICS, status ? error.text : "");
}

void metrics_writer_rewind(struct metrics_writer *metrics, struct status_report *report,
                           uint64_t step)
{
    struct error error = {0};

    if (metrics->file && metrics_rewind(metrics->file, step, &error))
        status_report_alarm(report, ALARM_METRICS, error.text);
}

/* ---- histories ---- */

static int send_history(struct trainer *trainer, unsigned to)
{
    char path[OPTIONS_PATH_SIZE + 32];
    struct metrics *metrics;
    struct bytes text = {0};
    struct mesh_request *request;
    struct error error = {0};
    int status;

    snprintf(path, sizeof(path), "%s/metrics.jsonl", trainer->options->job_dir);
    status = metrics_open(path, &metrics, &error);
    if (!status) {
        status = metrics_history(metrics, trainer->state->applied_step, &text, &error);
        metrics_close(metrics);
    }
    if (status) /* the other node's history starts here; training has priority */
        log_warning("no metrics history for rank %u: %s", to, error.text);
    status = mesh_send(trainer->links.mesh, to, tag_make(TAG_HISTORY, 0, 0), text.data,
                       text.size_bytes, &request);
    if (!status)
        status = mesh_wait(request, UINT64_MAX);
    bytes_done(&text);
    return status;
}

static int take_history(struct session_links *links, struct metrics_writer *metrics, unsigned from)
{
    AUTO_FREE void *text = NULL;
    size_t size_bytes = 0;
    struct error error = {0};
    int status = mesh_receive_any(links->mesh, from, tag_make(TAG_HISTORY, 0, 0), UINT64_MAX, &text,
                                  &size_bytes);

    if (!status && metrics->file && metrics_adopt(metrics->file, text, size_bytes, &error))
        log_warning("metrics history from rank %u: %s", from, error.text);
    return status;
}

int metrics_writer_exchange_histories(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    int status = 0;

    for (unsigned i = 0; !status && i < plan->start.history_count; i++)
        if (plan->start.histories[i].from_rank == rank)
            status = send_history(trainer, plan->start.histories[i].to_rank);
        else if (plan->start.histories[i].to_rank == rank)
            status = take_history(&trainer->links, &trainer->metrics,
                                  plan->start.histories[i].from_rank);
    return status ? error_set(error, status, "the links broke while metrics were handed over") : 0;
}

/* ---- opening ---- */

static bool is_metrics_writer(const struct worker_options *options, const struct plan *plan,
                              unsigned rank)
{
    for (unsigned i = 0; i < rank; i++)
        if (!strcmp(plan->layout.workers[i].node, options->node))
            return false;
    return true;
}

/* Take lines that this node lacks from the checkpoint that the run continues from. */
static void take_kept_history(struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    const char *sha256 = plan->start.restore_sha256[0] ? plan->start.restore_sha256 : NULL;
    struct manifest manifest = {0};
    char folder[JOB_PATH_SIZE];
    struct error error = {0};

    if (!trainer->metrics.file || plan->start.source != PLAN_SOURCE_CHECKPOINT)
        return;
    restored_folder_format(trainer, folder);
    int status = manifest_load(folder, sha256, &manifest, &error);
    if (!status)
        status = history_take(folder, &manifest, trainer->metrics.file, &error);
    if (status && status != -ENOENT) /* with copies this node may have no part of it */
        log_warning("metrics from the checkpoint: %s", error.text);
    manifest_done(&manifest);
}

/* The node's last metrics writer may have died between a commit and its line. */
static void record_unwritten(struct trainer *trainer)
{
    const struct state *state = trainer->state;

    if (state->committed.step > 0 && !metrics_writer_waits(trainer) &&
        state->committed.step == state->applied_step &&
        state->committed.step > metrics_last_step(trainer->metrics.file))
        metrics_writer_record(trainer, 0, NULL);
}

int metrics_writer_open(struct trainer *trainer, unsigned rank, struct error *error)
{
    char path[OPTIONS_PATH_SIZE + 32];

    metrics_close(trainer->metrics.file);
    trainer->metrics.file = NULL;
    snprintf(path, sizeof(path), "%s/metrics.jsonl", trainer->options->job_dir);
    snapshot_keep_history(trainer->checkpoints.snapshot, rank == 0 ? path : "");
    if (!is_metrics_writer(trainer->options, trainer->plan, rank))
        return 0;
    int status = metrics_open(path, &trainer->metrics.file, error);
    if (status)
        return status;
    take_kept_history(trainer);
    record_unwritten(trainer);
    if (trainer->plan->start.disputed) /* this process may not have learned of the dispute itself */
        metrics_writer_rewind(&trainer->metrics, &trainer->report,
                              trainer->plan->start.resume_step);
    return 0;
}
