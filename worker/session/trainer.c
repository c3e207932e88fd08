#include "worker/session/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/size_words.h"
#include "checkpoint/read/reader.h"
#include "comm/mesh/doorman.h"
#include "worker/session/commands.h"
#include "worker/session/generation.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/session.h"
#include "worker/session/status_report.h"
#include "worker/state/handover.h"
#include "worker/step/job_dataset.h"
#include "worker/step/moved_sums.h"
#include "worker/trace/recorder.h"

#define SPEC_FILE_MAX ((size_t)1 << 20)

/* ---- generations ---- */

static enum worker_cause cause_of(const struct plan_start *start, int status)
{
    if (start->source != PLAN_SOURCE_CHECKPOINT)
        return CAUSE_NONE;
    if (status == -EHOSTUNREACH || status == -EIO)
        return CAUSE_CHECKPOINT_AWAY;
    return checkpoint_is_lost(start->restore_path, status) ? CAUSE_CHECKPOINT_LOST : CAUSE_NONE;
}

/* No other layout helps: the job must not continue here. */
static enum session_outcome refuse(struct trainer *trainer, const struct error *error)
{
    log_error("%s", error->text);
    status_report_send(trainer, WORKER_REFUSED, error->text);
    return SESSION_STOPPED;
}

/* A file of the job cannot be read on this node. A retry meets the same file; another node may have
 * a good one. */
static bool lacks_input(const struct plan *plan, const struct job_spec *spec, int status)
{
    return plan->start.source == PLAN_SOURCE_FRESH && spec->model.from[0] && status != -ENOMEM;
}

/* The state that the plan names is not available. */
static enum session_outcome without_state(struct trainer *trainer, int status,
                                          const struct error *error)
{
    const struct plan *plan = trainer->plan;
    const char *text = error->code ? error->text : strerror(-status);

    if (commands_stopping(&trainer->commands))
        return SESSION_STOPPED;
    if (lacks_input(trainer->plan, &trainer->spec, status))
        return refuse(trainer, error);
    log_warning("generation %" PRIu64 " cannot begin here: %s", plan->generation, text);
    status_report_send_cause(trainer, WORKER_STUCK, cause_of(&plan->start, status), text);
    pending_plan_forget_planned(&trainer->commands.pending);
    return SESSION_BROKEN;
}

/* All workers see the same step diverge, and stop; firnd stops a worker that learns it too late.
 * This process stays until firnd, which may be away, has the report. */
static enum session_outcome diverged(struct trainer *trainer, const struct error *error)
{
    log_error("%s", error->text);
    status_report_held_back(trainer);
    status_report_send_cause(trainer, WORKER_REFUSED, CAUSE_DIVERGED, error->text);
    commands_await_stop(trainer);
    return SESSION_STOPPED;
}

/* The state of this slot is wrong, or may be: another node may have the right state. No other
 * process knows it, and firnd may be away: this process stays until firnd has the report and orders
 * it to stop. */
static enum session_outcome leave_service(struct trainer *trainer, const struct error *error)
{
    log_error("%s", error->text);
    frozen_outputs_condemn(trainer->frozen.outputs);
    status_report_send(trainer, WORKER_BAD, error->text);
    commands_await_stop(trainer);
    return SESSION_STOPPED;
}

static enum session_outcome broken(struct trainer *trainer, int status, const struct error *error)
{
    if (commands_stopping(&trainer->commands))
        return SESSION_STOPPED;
    if (status == -ECANCELED) /* before any link was up: the plan that replaces this one has arrived
                                 or will */
        return SESSION_BROKEN;
    if (status == -EDOM)
        return diverged(trainer, error);
    if (trainer->links.mesh)
        mesh_abort(trainer->links.mesh, "this worker cannot go on");
    generation_end_sums(trainer);
    generation_end_handover(trainer);
    if (status == -EUCLEAN) { /* the state is wrong; STUCK then reports that none is held */
        snapshot_give_up(trainer->checkpoints.snapshot);
        snapshot_release(trainer->checkpoints.snapshot);
        generation_drop_state(trainer);
        state_begin(trainer->state);
    }
    if (status == -EILSEQ)
        return refuse(trainer, error);
    if (status == -ENOTRECOVERABLE)
        return leave_service(trainer, error);
    log_warning("generation %" PRIu64 " broke: %s", trainer->plan->generation,
                error->code ? error->text : strerror(-status));
    status_report_send_cause(trainer, WORKER_STUCK,
                             status == -EUCLEAN ? CAUSE_STATE_DISPUTED : CAUSE_NONE,
                             error->code ? error->text : "");
    pending_plan_forget_planned(&trainer->commands.pending);
    return SESSION_BROKEN;
}

/* This worker's copy may be the last one of a unit until the others have begun. */
static enum session_outcome stepped_aside(struct trainer *trainer)
{
    log_info("generation %" PRIu64 " goes on without this worker, which keeps its state until that "
             "has begun",
             trainer->plan->generation);
    status_report_send_cause(trainer, WORKER_STUCK, CAUSE_LEFT_OUT, "");
    pending_plan_forget_planned(&trainer->commands.pending);
    return SESSION_BROKEN;
}

/* The progress of reading one state, by several threads. */
struct state_reading {
    struct start_watch *watch;
    _Atomic uint64_t size_bytes; /* so far */
};

static void note_state(void *context, uint64_t size_bytes)
{
    struct state_reading *reading = context;
    char text[REPORT_TEXT_SIZE], words[SIZE_WORDS_SIZE];

    size_bytes += atomic_fetch_add(&reading->size_bytes, size_bytes);
    snprintf(text, sizeof(text), "reads its state: %s so far", size_words(size_bytes, words));
    start_watch_note(reading->watch, text);
}

/* Reading a large state from a slow disk takes minutes: the leader and the other workers wait as
 * long as it progresses. A worker that has its state reports it: another worker is the one that
 * hangs. */
static int obtain_state(struct trainer *trainer, unsigned rank, struct error *error)
{
    struct state_reading reading = {.watch = trainer->start_watch};
    uint64_t began_ns = clock_monotonic_ns();

    if (trainer->plan->start.source == PLAN_SOURCE_MEMORY)
        return 0;
    start_watch_begin(trainer->start_watch, trainer->plan->generation, "reads its state");
    trainer->state->listener = (struct load_listener){note_state, &reading};
    int status = generation_obtain_state(trainer, rank, error);

    trainer->state->listener = (struct load_listener){0};
    (void)start_watch_end(trainer->start_watch);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_READ_STATE,
                      trainer->plan->start.resume_step + 1);
    if (!status)
        status_report_send(trainer, WORKER_PREPARED, "");
    return status;
}

static int join(struct trainer *trainer, unsigned rank, struct error *error)
{
    int status = generation_join(trainer, rank, error);

    if (status)
        return status;
    if (rank >= trainer->plan->layout.worker_count)
        return metrics_writer_exchange_histories(trainer, rank, error);
    return session_open(trainer, rank, error);
}

/* Hand sums and state over until no rank needs this worker, which has no part in the generation. */
static int donate(struct trainer *trainer, unsigned rank)
{
    struct mesh *mesh = trainer->links.mesh;
    int status = moved_sums_new(trainer->state, trainer->plan, rank, mesh, trainer->kept, true,
                                &trainer->sums);

    if (!status)
        status = moved_sums_settle(trainer->sums, NULL);
    if (!status && trainer->handover)
        status = handover_finish(trainer->handover);
    if (!status)
        status = moved_sums_await_release(trainer->sums);
    return status ? status : handover_await_release(&trainer->plan->start, rank, mesh);
}

/* Return whether the links of a donor broke because rank 0 leaves the step: it does so only when
 * all units and sums have arrived. */
static bool is_free(const struct trainer *trainer)
{
    return step_watch_switch(trainer, trainer->state->applied_step + 1) != 0;
}

static void enter_trace(struct recorder *recorder, const struct plan *plan, unsigned rank)
{
    if (rank < plan->layout.worker_count)
        recorder_enter(recorder, plan->generation, rank % plan->layout.stage_count,
                       rank / plan->layout.stage_count);
    else
        recorder_enter(recorder, plan->generation, TRACE_NO_STAGE, TRACE_NO_STAGE);
}

/* Run one generation from its plan to its end; the plan has become trainer->plan. */
static enum session_outcome run_generation(struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    int rank = plan_layout_find(&plan->layout, trainer->options->node, trainer->options->slot);
    struct error error = {0};
    int status;

    status = generation_settle(trainer, &error);
    if (status)
        return broken(trainer, status, &error);
    generation_close(trainer);
    trainer->links.unreached.count = 0;
    if (rank < 0)
        return generation_steps_aside(trainer) ? stepped_aside(trainer) : SESSION_LEFT;
    enter_trace(trainer->recorder, plan, (unsigned)rank);
    if (!generation_fits(trainer, (unsigned)rank, &error))
        return broken(trainer, error.code, &error);
    if (plan->change.planned) /* if the new generation never comes up, the leader has this report */
        status_report_send(trainer, WORKER_PREPARED, "");
    if (generation_make_room(trainer, (unsigned)rank, &error))
        return refuse(trainer, &error);
    status = obtain_state(trainer, (unsigned)rank, &error);
    if (status)
        return without_state(trainer, status, &error);
    status = join(trainer, (unsigned)rank, &error);
    if (status)
        return broken(trainer, status, &error);
    if ((unsigned)rank >= plan->layout.worker_count) {
        status = donate(trainer, (unsigned)rank);
        return status && !is_free(trainer) ? broken(trainer, status, &error) : SESSION_LEFT;
    }
    status_report_running(trainer);
    enum session_outcome outcome = session_train(trainer, &error);
    reserve_end(trainer);
    return outcome == SESSION_BROKEN ? broken(trainer, error.code, &error) : outcome;
}

static int train_generations(struct trainer *trainer)
{
    for (;;) {
        struct plan *plan = commands_next_plan(trainer, UINT64_MAX);
        if (!plan)
            return -ECANCELED;
        struct plan *old = trainer->plan;
        trainer->plan = plan;
        __atomic_store_n(&trainer->commands.generation, plan->generation, __ATOMIC_RELEASE);
        enum session_outcome outcome = run_generation(trainer);
        plan_free(old);
        switch (outcome) {
        case SESSION_SWITCH:
        case SESSION_BROKEN:
            break;
        case SESSION_LEFT:
            status_report_send(trainer, WORKER_LEFT, "");
            return 0;
        case SESSION_FINISHED:
            frozen_outputs_finish(trainer->frozen.outputs);
            status_report_send(trainer, WORKER_FINISHED, "");
            return 0;
        case SESSION_STOPPED:
            return -ECANCELED;
        }
    }
}

/* ---- start and end ---- */

static int load_spec(const struct worker_options *options, struct job_spec *spec,
                     struct error *error)
{
    const char *path = options->spec_path;
    struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    int status = file_read(path, SPEC_FILE_MAX, &text, error);

    if (!status)
        status = json_parse((const char *)text.data, text.size_bytes, path, &tree, error);
    if (!status)
        status = job_spec_decode(tree, path, NULL, NULL, spec, error);
    bytes_done(&text);
    return status;
}

static int open_kernel(struct trainer *trainer, struct error *error)
{
    static const enum kernel_precision precisions[] = {
        [JOB_PRECISION_BF16] = KERNEL_PRECISION_BF16,
        [JOB_PRECISION_TF32] = KERNEL_PRECISION_TF32,
        [JOB_PRECISION_F32] = KERNEL_PRECISION_F32,
    };
    const struct worker_options *options = trainer->options;
    const struct kernel_options device = {.index = options->device_index,
                                          .thread_count = options->thread_count};
    enum kernel_precision precision = options->device == KERNEL_BACKEND_CPU
                                          ? KERNEL_PRECISION_F32
                                          : precisions[trainer->spec.train.precision];
    const struct kernel *kernel;
    int status = kernel_backend(options->device, precision, &kernel, error);

    if (!status)
        status = kernel->open(&device, &trainer->device.device, error);
    if (status)
        return status;
    trainer->device.kernel = kernel;
    footprint_open(&trainer->device.footprint, kernel, trainer->device.device);
    return 0;
}

static int open_device(struct trainer *trainer, struct error *error)
{
    uint64_t began_ns = clock_monotonic_ns();

    start_watch_begin(trainer->start_watch, 0, "opens its device");
    int status = open_kernel(trainer, error);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_DEVICE, 0);
    if (start_watch_end(trainer->start_watch) && !status)
        status_report_send(trainer, WORKER_STARTING, "");
    return status;
}

static int open_state(struct trainer *trainer, struct error *error)
{
    const struct snapshot_options snapshots = {
        .folder = trainer->options->checkpoint_dir,
        .node = trainer->options->node,
        .timeout_ns = trainer->options->failure_timeout_ns,
    };
    int status = state_new(&trainer->spec, trainer->device.kernel, trainer->device.device,
                           &trainer->state, error);

    if (!status) {
        trainer->state->thread_count = trainer->options->thread_count;
        status = snapshot_new(trainer->state, &snapshots, &trainer->checkpoints.snapshot, error);
    }
    return status;
}

/* The node's workers share the folder; workers with equal numerics share the files in it. */
static int open_frozen(struct trainer *trainer, struct error *error)
{
    const struct worker_options *options = trainer->options;
    uint64_t budget_bytes = trainer->spec.elastic.freeze.cache_mb << 20;
    char folder[OPTIONS_PATH_SIZE + 16], identity[PLAN_NUMERICS_SIZE];
    char numerics[PLAN_NUMERICS_SIZE + 16];
    int status = kernel_backend_identity(options->device, identity, sizeof(identity), error);

    if (status)
        return status;
    snprintf(folder, sizeof(folder), "%s/frozen", options->job_dir);
    snprintf(numerics, sizeof(numerics), "%s %u", identity, options->thread_count);
    trainer->frozen = (struct frozen_cache){
        .outputs = frozen_outputs_new(folder, numerics, budget_bytes),
        .weights = frozen_weights_new(),
        .timeout_ns = options->failure_timeout_ns,
    };
    return trainer->frozen.outputs && trainer->frozen.weights
               ? 0
               : error_set(error, -ENOMEM, "no memory for the outputs of frozen layers");
}

/* Test early: the operator has time to act before the first checkpoint is due. */
static void try_checkpoints(struct trainer *trainer)
{
    struct error error = {0};

    if (snapshot_try(trainer->checkpoints.snapshot, &error))
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
}

/* ---- data ---- */

static void note_reading(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    char text[REPORT_TEXT_SIZE], done[SIZE_WORDS_SIZE], total[SIZE_WORDS_SIZE];

    if (total_bytes)
        snprintf(text, sizeof(text), "reads the training data: %s of %s",
                 size_words(done_bytes, done), size_words(total_bytes, total));
    else
        snprintf(text, sizeof(text), "%s", REPORT_WAITS_FOR_READER);
    start_watch_note(context, text);
}

static int open_data(struct trainer *trainer, struct error *error)
{
    const char *folder = trainer->options->digests_dir;
    const struct dataset_listener listener = {.reading = note_reading,
                                              .context = trainer->start_watch};
    uint64_t began_ns = clock_monotonic_ns();

    start_watch_begin(trainer->start_watch, 0, "reads the training data");
    int status = job_dataset_open(&trainer->spec, folder[0] ? folder : NULL, &listener,
                                  &trainer->dataset, error);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_OPEN_DATA, 0);
    if (start_watch_end(trainer->start_watch) && !status)
        status_report_send(trainer, WORKER_STARTING, "");
    if (!status && dataset_was_known(trainer->dataset))
        log_info(
            "the training data has not changed since a worker of this node read it: its digest "
            "is kept in %s",
            folder);
    return status;
}

/* Open the files of the job on this node. */
static int open_job(struct trainer *trainer, struct error *error)
{
    int status = open_state(trainer, error);

    if (!status)
        status = open_frozen(trainer, error);
    if (status)
        return status;
    try_checkpoints(trainer);
    numerics_log_write(&trainer->device.numerics, trainer->device.kernel, trainer->device.device);
    nccl_use_init(&trainer->device.nccl, trainer->device.kernel, trainer->device.device);
    trainer->device.nccl.offer.digests = trainer->options->device_digests;
    return open_data(trainer, error);
}

static int refused(struct trainer *trainer, int status, const struct error *error)
{
    if (status)
        status_report_send(trainer, WORKER_REFUSED, error->text);
    return status;
}

/* Training has priority: there may be no room for a trace. */
static void open_trace(struct trainer *trainer)
{
    const struct recorder_options options = {.folder = trainer->options->job_dir,
                                             .slot = trainer->options->slot};
    struct error error = {0};

    if (recorder_open(&options, &trainer->recorder, &error))
        log_warning("there will be no trace of this worker: %s", error.text);
}

/* A port in use, or a device that does not open, is not a fault of the job: firnd retries, and then
 * takes the slot out of service. */
static int open_all(struct trainer *trainer, struct error *error)
{
    int status = mesh_listen(trainer->options->listen, &trainer->listener, error);

    if (status)
        return status;
    status = mesh_doorman_new(trainer->listener.tcp, &trainer->doorman);
    if (status)
        return error_set(error, status, "watching the port: %s", strerror(-status));
    status_report_send(trainer, WORKER_STARTING, "");
    status = refused(trainer, load_spec(trainer->options, &trainer->spec, error), error);
    if (!status)
        status =
            refused(trainer, file_make_directories(trainer->options->job_dir, 0755, error), error);
    if (status)
        return status;
    open_trace(trainer);
    status = open_device(trainer, error);
    return status ? status : refused(trainer, open_job(trainer, error), error);
}

static int trainer_init(struct trainer *trainer, const struct worker_options *options,
                        struct error *error)
{
    *trainer = (struct trainer){.options = options,
                                .listener = MESH_LISTENER_NONE,
                                .commands.cancel = -1,
                                .metrics.validation_loss = NAN};
    pthread_mutex_init(&trainer->links.lock, NULL);
    if (getrandom(&trainer->instance, sizeof(trainer->instance), 0) != sizeof(trainer->instance))
        return error_set(error, -EIO, "no random numbers from the kernel");
    trainer->instance >>= 1; /* JSON integers are signed */
    trainer->commands.cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (trainer->commands.cancel < 0)
        return error_set(error, -errno, "making an eventfd: %s", strerror(errno));
    int status = control_server_start(options->socket_path, commands_observe, trainer,
                                      &trainer->report.control, error);
    /* From now on another firnd can find this process: it may survive the firnd that started it. */
    if (!status && prctl(PR_SET_PDEATHSIG, 0))
        status = error_set(error, -errno, "prctl: %s", strerror(errno));
    if (status)
        return status;
    status =
        start_watch_new(options, trainer->instance, trainer->report.control, &trainer->start_watch);
    return status ? error_set(error, status, "watching the start: %s", strerror(-status)) : 0;
}

static void trainer_done(struct trainer *trainer)
{
    if (trainer->checkpoints.snapshot)
        generation_close(trainer);
    generation_forget_step(trainer);
    mesh_doorman_free(trainer->doorman);
    mesh_listener_close(&trainer->listener); /* before the socket: it marks the port as taken */
    start_watch_free(trainer->start_watch);
    control_server_stop(trainer->report.control);
    snapshot_free(trainer->checkpoints.snapshot);
    metrics_close(trainer->metrics.file);
    frozen_outputs_free(trainer->frozen.outputs);
    frozen_weights_free(trainer->frozen.weights);
    recorder_close(trainer->recorder);
    dataset_close(trainer->dataset);
    state_free(trainer->state);
    numerics_log_done(&trainer->device.numerics);
    nccl_use_done(&trainer->device.nccl);
    if (trainer->device.kernel)
        trainer->device.kernel->close(trainer->device.device);
    plan_free(trainer->plan);
    pending_plan_done(&trainer->commands.pending);
    close_descriptor(&trainer->commands.cancel);
    pthread_mutex_destroy(&trainer->links.lock);
}

int trainer_run(const struct worker_options *options, struct error *error)
{
    AUTO_FREE struct trainer *trainer = malloc(sizeof(*trainer));
    int status;

    if (!trainer)
        return error_set(error, -ENOMEM, "no memory for a worker");
    status = trainer_init(trainer, options, error);
    if (!status)
        status = open_all(trainer, error);
    if (!status)
        status = train_generations(trainer);
    trainer_done(trainer);
    return status;
}
