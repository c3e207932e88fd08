#include "worker/session.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/keep.h"
#include "checkpoint/reader.h"
#include "elastic/holdings.h"
#include "elastic/plan_words.h"
#include "worker/data_agreement.h"
#include "worker/handover.h"
#include "worker/history.h"
#include "worker/tags.h"

#define PROGRESS_NS  (NS_PER_SECOND / 4)
#define HOLD_LOOK_NS (20 * NS_PER_MS)

int session_dataset(const struct job_spec *spec, struct dataset **ret_dataset, struct error *error)
{
    static const enum dataset_format formats[] = {
        [JOB_FORMAT_BYTES] = DATASET_BYTES,
        [JOB_FORMAT_LLMC] = DATASET_LLMC,
        [JOB_FORMAT_UINT16] = DATASET_UINT16,
        [JOB_FORMAT_UINT32] = DATASET_UINT32,
    };
    const char *paths[JOB_PATHS_MAX];
    const struct dataset_options options = {
        .format = formats[spec->data.format],
        .paths = paths,
        .path_count = spec->data.path_count,
        .validation_path = spec->data.validation_path[0] ? spec->data.validation_path : NULL,
        .validation_share = spec->data.validation_share,
        .context = spec->model.context,
        .vocab = spec->model.vocab,
        .seed = spec->train.seed,
    };
    int status;

    for (unsigned i = 0; i < spec->data.path_count; i++)
        paths[i] = spec->data.paths[i];
    status = dataset_open(&options, ret_dataset, error);
    if (!status && spec->evaluate.every && dataset_validation_count(*ret_dataset) == 0) {
        dataset_close(*ret_dataset);
        status = error_set(error, -ENODATA,
                           "evaluate.every is %" PRIu64
                           " but no validation data is left: raise data.validation or "
                           "give it a path",
                           spec->evaluate.every);
    }
    return status;
}

/* ---- what this worker says of itself ---- */

static void describe_lost(const struct trainer *trainer, struct worker_report *report)
{
    struct mesh_fault fault;

    assert(trainer->plan != NULL); /* whoever has a mesh has the plan that it was made for */
    mesh_fault(trainer->mesh, &fault);
    for (unsigned i = 0; i < fault.lost_count && report->lost_count < REPORT_LOST_MAX; i++) {
        const struct plan_worker *lost = &trainer->plan->workers[fault.lost_ranks[i]];
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

void session_describe(const struct trainer *trainer, enum worker_phase phase, const char *text,
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
    if (trainer->state)
        describe_held(trainer, ret_report);
    if (phase == WORKER_STUCK)
        describe_unreached(trainer, ret_report);
    if (phase == WORKER_STUCK && trainer->mesh)
        describe_lost(trainer, ret_report);
}

static void tell_event(struct trainer *trainer, const char *text)
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

void session_alarm(struct trainer *trainer, enum alarm_about about, const char *text)
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

void session_checkpoint_alarm(struct trainer *trainer, const struct error *error)
{
    char text[CONTROL_TEXT_SIZE];

    log_warning("%s", error->text); /* with step and file, which the alarm leaves out */
    alarms_of_checkpoint(trainer->options->checkpoint_dir, error, text);
    session_alarm(trainer, ALARM_CHECKPOINT, text);
}

/* ---- opening ---- */

static bool is_scribe(const struct trainer *trainer, unsigned rank)
{
    for (unsigned i = 0; i < rank; i++)
        if (!strcmp(trainer->plan->workers[i].node, trainer->options->node))
            return false;
    return true;
}

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
    if (status) /* the other node starts its history here; training matters more */
        log_warning("no metrics history for rank %u: %s", to, error.text);
    status = mesh_send(trainer->mesh, to, tag_make(TAG_HISTORY, 0, 0), text.data, text.size_bytes,
                       &request);
    if (!status)
        status = mesh_wait(request, UINT64_MAX);
    bytes_done(&text);
    return status;
}

static int take_history(struct trainer *trainer, unsigned from)
{
    AUTO_FREE void *text = NULL;
    size_t size_bytes = 0;
    struct error error = {0};
    int status = mesh_receive_any(trainer->mesh, from, tag_make(TAG_HISTORY, 0, 0), UINT64_MAX,
                                  &text, &size_bytes);

    if (!status && trainer->metrics && metrics_adopt(trainer->metrics, text, size_bytes, &error))
        log_warning("metrics history from rank %u: %s", from, error.text);
    return status;
}

int session_exchange_histories(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    int status = 0;

    for (unsigned i = 0; !status && i < plan->history_count; i++)
        if (plan->histories[i].from_rank == rank)
            status = send_history(trainer, plan->histories[i].to_rank);
        else if (plan->histories[i].to_rank == rank)
            status = take_history(trainer, plan->histories[i].from_rank);
    return status ? error_set(error, status, "the links broke while metrics were handed over") : 0;
}

/* The checkpoint that the plan restores, or with copies this node's part of it. */
static void restored_folder(const struct trainer *trainer, char ret_folder[JOB_PATH_SIZE])
{
    const struct plan *plan = trainer->plan;

    if (plan->restore_sha256[0])
        checkpoint_path(trainer->options->checkpoint_dir, plan->resume_step, ret_folder);
    else
        snprintf(ret_folder, JOB_PATH_SIZE, "%s", plan->restore_path);
}

/* Of a run that goes on from a checkpoint: what this node has not seen itself. */
static void take_kept_history(struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    const char *sha256 = plan->restore_sha256[0] ? plan->restore_sha256 : NULL;
    struct manifest manifest = {0};
    char folder[JOB_PATH_SIZE];
    struct error error = {0};

    if (!trainer->metrics || plan->source != PLAN_SOURCE_CHECKPOINT)
        return;
    restored_folder(trainer, folder);
    int status = manifest_load(folder, sha256, &manifest, &error);
    if (!status)
        status = history_take(folder, &manifest, trainer->metrics, &error);
    if (status && status != -ENOENT) /* with copies this node may have no part of it */
        log_warning("metrics from the checkpoint: %s", error.text);
    manifest_done(&manifest);
}

/* The node's scribe before may have died between a commit and its line. */
static void record_unwritten(struct trainer *trainer)
{
    const struct state *state = trainer->state;

    if (state->committed.step > 0 && state->committed.step == state->applied_step &&
        state->committed.step > metrics_last_step(trainer->metrics))
        session_record(trainer, 0, NULL);
}

static int open_metrics(struct trainer *trainer, unsigned rank, struct error *error)
{
    char path[OPTIONS_PATH_SIZE + 32];

    metrics_close(trainer->metrics);
    trainer->metrics = NULL;
    snprintf(path, sizeof(path), "%s/metrics.jsonl", trainer->options->job_dir);
    snapshot_keep_history(trainer->snapshot, rank == 0 ? path : "");
    if (!is_scribe(trainer, rank))
        return 0;
    int status = metrics_open(path, &trainer->metrics, error);
    if (status)
        return status;
    take_kept_history(trainer);
    record_unwritten(trainer);
    return 0;
}

/* Whoever judges times begins anew with each engine: other lanes, or less to compute. */
static int make_engine(struct trainer *trainer, unsigned rank, struct error *error)
{
    double factor = trainer->spec.elastic.evict_stragglers.factor;
    int status = engine_new(trainer->state, trainer->dataset, trainer->plan, rank, &trainer->routes,
                            &trainer->engine, error);

    straggler_free(trainer->straggler);
    trainer->straggler = NULL;
    if (status || rank != 0 || factor == 0)
        return status;
    if (straggler_new(trainer->plan, factor, trainer->spec.elastic.evict_stragglers.steps,
                      &trainer->straggler))
        return error_set(error, -ENOMEM, "no memory to watch for stragglers");
    return 0;
}

/* What the state was trained on binds from the first step on. */
static int agree_on_data(struct trainer *trainer, unsigned rank, struct error *error)
{
    struct state *state = trainer->state;
    uint64_t digest = dataset_digest(trainer->dataset).low;
    int status = data_agreement_run(trainer->mesh, trainer->plan, rank, digest,
                                    state->applied_step ? state->data_digest : 0, error);

    if (!status)
        state->data_digest = digest;
    return status;
}

int session_open(struct trainer *trainer, unsigned rank, struct error *error)
{
    struct error metrics_error = {0};
    int status;

    if (open_metrics(trainer, rank, &metrics_error))
        session_alarm(trainer, ALARM_METRICS, metrics_error.text);
    status = agree_on_data(trainer, rank, error);
    if (!status)
        status = session_exchange_histories(trainer, rank, error);
    if (!status)
        status = snapshot_reserve(trainer->snapshot, trainer->plan, rank, error);
    if (status)
        return status;
    const struct routes_options routes = {
        .mesh = trainer->mesh,
        .plan = trainer->plan,
        .rank = rank,
        .kernel = trainer->kernel,
        .device = trainer->device,
        .nccl = &trainer->nccl,
        .failure_timeout_ns = trainer->options->failure_timeout_ns,
    };
    status = routes_open(&routes, &trainer->routes, error);
    if (status)
        return status;
    status = make_engine(trainer, rank, error);
    trainer->first_commit = true;
    memset(&trainer->readiness, 0, sizeof(trainer->readiness));
    return status;
}

/* ---- after a commit ---- */

static double committed_loss(const struct trainer *trainer)
{
    return step_record_loss(&trainer->state->committed, job_spec_tokens_per_step(&trainer->spec));
}

void session_record(struct trainer *trainer, uint64_t step_ns,
                    const struct straggler_stage *slowest)
{
    const struct state *state = trainer->state;
    const struct plan *plan = trainer->plan;
    const struct step_record *record = &state->committed;
    struct error error = {0};
    struct metrics_line line = {
        .job = trainer->spec.name,
        .step = record->step,
        .loss = committed_loss(trainer),
        .grad_norm = step_record_norm(record),
        .lr = job_spec_learning_rate(&trainer->spec, record->step),
        .frozen_layers = state->freeze.frozen_layers,
        .generation = plan->generation,
        .stages = plan->stage_count,
        .replicas = plan->replica_count,
        .workers = plan->worker_count,
        .tokens = record->step * job_spec_tokens_per_step(&trainer->spec),
        .step_ms = (double)step_ns / 1e6,
        .unix_ns = clock_real()->realtime_ns(clock_real()->context),
        .evaluated = record->evaluated,
        .plan = plan,
        .slowest = slowest,
    };

    if (!trainer->metrics)
        return;
    if (record->evaluated)
        line.val_loss =
            step_record_validation_loss(record, engine_validation_tokens(&trainer->spec));
    int status = metrics_append(trainer->metrics, &line, &error);
    session_alarm(trainer, ALARM_METRICS, status ? error.text : "");
}

static void tell_progress(struct trainer *trainer, uint64_t step_ns)
{
    const struct state *state = trainer->state;
    AUTO_FREE struct control_message *message = NULL;
    uint64_t now_ns = clock_monotonic_ns();
    double seconds = (double)step_ns / 1e9;

    if (state->committed.evaluated)
        trainer->validation_loss = step_record_validation_loss(
            &state->committed, engine_validation_tokens(&trainer->spec));
    if (now_ns - trainer->progress_ns < PROGRESS_NS &&
        state->applied_step < trainer->spec.train.steps)
        return;
    message = calloc(1, sizeof(*message));
    if (!message)
        return;
    trainer->progress_ns = now_ns;
    message->type = CONTROL_PROGRESS;
    message->progress = (struct control_progress){
        .generation = trainer->plan->generation,
        .step = state->applied_step,
        .frozen_layers = state->freeze.frozen_layers,
        .loss = committed_loss(trainer),
        .grad_norm = step_record_norm(&state->committed),
        .validation_loss = trainer->validation_loss,
        .step_seconds = seconds,
        .tokens_per_second = (double)job_spec_tokens_per_step(&trainer->spec) / seconds,
        .compute_seconds = (double)trainer->engine->timing.compute_ns / 1e9,
        .wait_seconds = (double)trainer->engine->timing.wait_ns / 1e9,
        .pause_seconds = trainer->pause_seconds,
    };
    if (trainer->straggler)
        message->progress.verdict_count =
            straggler_verdicts(trainer->straggler, message->progress.verdicts);
    control_server_send(trainer->control, message);
}

void session_tell_checkpoint(struct trainer *trainer)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    struct error error = {0};
    int status;

    if (!message)
        return;
    status = snapshot_take_result(trainer->snapshot, &message->checkpoint, &error);
    if (status < 0)
        session_checkpoint_alarm(trainer, &error);
    if (status != 1)
        return;
    message->type = CONTROL_CHECKPOINT;
    control_server_send(trainer->control, message);
    session_alarm(trainer, ALARM_CHECKPOINT, snapshot_warning(trainer->snapshot));
}

/* Whose share it was has raised its own alarm; the job's is rank 0's. */
static void give_up_checkpoint(struct trainer *trainer, uint64_t failed_step)
{
    if (snapshot_abandon(trainer->snapshot, failed_step) &&
        !trainer->alarms.texts[ALARM_CHECKPOINT][0])
        session_alarm(trainer, ALARM_CHECKPOINT,
                      "checkpoints are given up: a worker cannot write its share (firnctl job "
                      "events says why)");
}

static void look_after_checkpoint(struct trainer *trainer, const struct exchange_down *down)
{
    const struct state *state = trainer->state;
    struct error error = {0};

    if (trainer->engine->rank == 0) {
        give_up_checkpoint(trainer, down->checkpoint_failed);
        snapshot_commit(trainer->snapshot, down->checkpoint_durable);
        session_tell_checkpoint(trainer);
    } else {
        snapshot_abandon(trainer->snapshot, down->checkpoint_failed);
        snapshot_commit(trainer->snapshot, down->checkpoint_durable);
        if (down->checkpoint_durable > down->checkpoint_failed &&
            snapshot_settled(trainer->snapshot))
            session_alarm(trainer, ALARM_CHECKPOINT, "");
    }
    if (!snapshot_due(&trainer->spec, state->applied_step) || down->switch_generation)
        return;
    int status = snapshot_begin(trainer->snapshot, trainer->plan, trainer->engine->rank, &error);
    if (status == -EBUSY)
        log_warning("the checkpoint of step %" PRIu64
                    " is left out: the one before is still being written",
                    state->applied_step);
    else if (status)
        session_checkpoint_alarm(trainer, &error);
}

static void tell_freeze(struct trainer *trainer, unsigned frozen_before)
{
    unsigned frozen = trainer->state->freeze.frozen_layers;
    char text[256];

    if (frozen == frozen_before || trainer->engine->rank != 0)
        return;
    if (frozen - frozen_before > 1)
        snprintf(text, sizeof(text), "layers %u-%u frozen at step %" PRIu64 " (%u of %u)",
                 frozen_before, frozen - 1, trainer->state->applied_step, frozen,
                 trainer->spec.model.layers);
    else
        snprintf(text, sizeof(text), "layer %u frozen at step %" PRIu64 " (%u of %u)",
                 frozen_before, trainer->state->applied_step, frozen, trainer->spec.model.layers);
    tell_event(trainer, text);
}

/* All workers have read their parts, or there would be no commit: together that is all of it. */
static void mark_restored(const struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    char folder[JOB_PATH_SIZE];
    struct error error = {0};

    restored_folder(trainer, folder);
    if (plan->source == PLAN_SOURCE_CHECKPOINT && trainer->engine->rank == 0 &&
        (!plan->restore_sha256[0] || !access(folder, F_OK)) &&
        checkpoint_mark_verified(folder, &error))
        log_warning("the checkpoint is good, but cannot be marked as verified: %s", error.text);
}

static int settle_into_generation(struct trainer *trainer)
{
    const struct engine *engine = trainer->engine;

    if (!trainer->first_commit)
        return 0;
    trainer->first_commit = false;
    mark_restored(trainer);
    snapshot_release(trainer->snapshot);
    engine_drop_others(trainer->engine);
    algorithms_log(&trainer->algorithms, trainer->kernel, trainer->device);
    return handover_release(trainer->plan, engine->rank, trainer->mesh);
}

/* ---- the step ---- */

static void measure_pause(struct trainer *trainer, uint64_t now_ns)
{
    char text[PLAN_REASON_SIZE + 160], layout[LAYOUT_WORDS_SIZE];
    const struct plan *plan = trainer->plan;

    if (!trainer->first_commit)
        return;
    trainer->pause_seconds =
        trainer->last_commit_ns ? (double)(now_ns - trainer->last_commit_ns) / 1e9 : 0;
    if (trainer->engine->rank != 0)
        return;
    snprintf(text, sizeof(text), "generation %" PRIu64 " (%s): %s, pause %.0f ms", plan->generation,
             plan->reason_text, plan_layout_words(plan->stage_count, plan->replica_count, layout),
             trainer->pause_seconds * 1e3);
    tell_event(trainer, text);
}

/* Rank 0: the generation that follows this step; 0: none yet. A plan that was made for another
 * generation's layout never does: it was to take over from one that this one took over from. */
static uint64_t choose_switch(const struct trainer *trainer)
{
    const struct plan *next = trainer->pending;

    return next && next->planned && next->follows == trainer->plan->generation &&
                   exchange_ready(&trainer->readiness, trainer->plan, next)
               ? next->generation
               : 0;
}

/* An order of firnd, which may be the only one that knows that the job was given away. */
static int await_permission(void *context)
{
    const struct trainer *trainer = context;

    while (__atomic_load_n(&trainer->held_generation, __ATOMIC_ACQUIRE) >= trainer->generation)
        if (mesh_await_fault(trainer->mesh, clock_monotonic_ns() + HOLD_LOOK_NS))
            return -ECONNRESET;
    return 0;
}

static int commit_step(struct trainer *trainer, struct exchange_down *down, struct error *error)
{
    struct state *state = trainer->state;
    AUTO_FREE struct exchange_up *up = malloc(sizeof(*up));
    struct error share_error = {0};
    uint64_t announced = __atomic_load_n(&trainer->announced, __ATOMIC_ACQUIRE);
    const struct exchange_root root = {.switch_generation = choose_switch(trainer),
                                       .may_commit = await_permission,
                                       .context = trainer};
    int status;

    if (!up)
        return error_set(error, -ENOMEM, "no memory for a commit");
    if (snapshot_poll(trainer->snapshot, 0, &share_error))
        session_checkpoint_alarm(trainer, &share_error);
    up->data_digest = dataset_digest(trainer->dataset).low;
    up->checkpoint_durable = snapshot_durable_step(trainer->snapshot);
    up->checkpoint_failed = snapshot_failed_step(trainer->snapshot);
    exchange_readiness_init(&up->readiness, trainer->engine->rank,
                            announced > trainer->generation ? announced : 0);
    up->busy_ns = trainer->engine->timing.busy_ns;
    up->record = state->hold;
    status = exchange_run(trainer->mesh, trainer->plan, trainer->engine->rank, false, up, &root,
                          down, error);
    if (!status && trainer->engine->rank == 0)
        trainer->readiness = down->readiness;
    if (!status && trainer->straggler)
        straggler_step(trainer->straggler, down->busy_ns);
    return status && !error->code
               ? error_set(error, status, "the links broke while step %" PRIu64 " was committed",
                           state->hold.step)
               : status;
}

static int renew_engine(struct trainer *trainer, struct error *error)
{
    unsigned rank = trainer->engine->rank;

    if (!engine_stale(trainer->engine))
        return 0;
    engine_free(trainer->engine);
    trainer->engine = NULL;
    int status = make_engine(trainer, rank, error);
    assert(status || trainer->engine);
    return status;
}

static int run_step(struct trainer *trainer, struct exchange_down *down, struct error *error)
{
    unsigned frozen_before = trainer->state->freeze.frozen_layers;
    uint64_t began_ns = clock_monotonic_ns();
    int status = renew_engine(trainer, error);

    if (!status) {
        measure_pause(trainer, began_ns);
        status = engine_compute(trainer->engine, error);
    }
    if (!status)
        status = commit_step(trainer, down, error);
    if (!status)
        status = settle_into_generation(trainer);
    if (status)
        return status;
    snapshot_release(trainer->snapshot);
    engine_apply(trainer->engine, &down->record);
    trainer->last_commit_ns = clock_monotonic_ns();
    session_record(trainer, trainer->last_commit_ns - began_ns, down->slowest);
    tell_progress(trainer, trainer->last_commit_ns - began_ns);
    tell_freeze(trainer, frozen_before);
    look_after_checkpoint(trainer, down);
    return 0;
}

/* The commit said that another generation follows: its plan is here already, or about to be. */
static enum session_outcome switch_over(struct trainer *trainer, struct error *error)
{
    const struct plan *plan = session_announced_plan(trainer);

    if (session_stopping(trainer))
        return SESSION_STOPPED;
    if (!plan) {
        error_set(error, -ETIMEDOUT,
                  "the plan that was announced at step %" PRIu64 " did not arrive from firnd",
                  trainer->state->applied_step);
        return SESSION_BROKEN;
    }
    return plan->worker_count ? SESSION_SWITCH : session_finish(trainer, SESSION_LEFT, error);
}

enum session_outcome session_train(struct trainer *trainer, struct error *error)
{
    AUTO_FREE struct exchange_down *down = malloc(sizeof(*down));

    if (!down) {
        error_set(error, -ENOMEM, "no memory for a commit");
        return SESSION_BROKEN;
    }
    while (trainer->state->applied_step < trainer->spec.train.steps) {
        session_messages(trainer, 0);
        if (session_stopping(trainer))
            return SESSION_STOPPED;
        int status = run_step(trainer, down, error);
        if (status) {
            if (!error->code)
                error_set(error, status, "step %" PRIu64 " failed: %s",
                          trainer->state->applied_step + 1, strerror(-status));
            return session_stopping(trainer) ? SESSION_STOPPED : SESSION_BROKEN;
        }
        if (down->switch_generation && trainer->state->applied_step < trainer->spec.train.steps)
            return switch_over(trainer, error);
    }
    return session_finish(trainer, SESSION_FINISHED, error);
}
