#include "worker/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
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
#include "checkpoint/reader.h"
#include "elastic/holdings.h"
#include "elastic/start_time.h"
#include "worker/control_server.h"
#include "worker/handover.h"
#include "worker/memory.h"
#include "worker/pretrained.h"
#include "worker/restore.h"
#include "worker/session.h"
#include "worker/spread.h"

#define SPEC_FILE_MAX      ((size_t)1 << 20)
#define ANNOUNCED_TIMEOUTS 8 /* a plan that a commit announced must arrive within so many */

/* ---- messages ---- */

/* Ends mesh_open(), if that is where the main thread is. */
static void wake_main(struct trainer *trainer)
{
    uint64_t one = 1;

    if (write(trainer->cancel, &one, sizeof(one)) < 0)
        log_warning("waking the main thread: %s", strerror(errno));
}

static void break_off(struct trainer *trainer, const char *reason)
{
    wake_main(trainer);
    pthread_mutex_lock(&trainer->lock);
    if (trainer->mesh)
        mesh_abort(trainer->mesh, reason);
    pthread_mutex_unlock(&trainer->lock);
}

/* Should the main thread be told? A firnd that is new may speak of the plan that it follows. */
static bool is_newer(const struct trainer *trainer, const struct plan *plan)
{
    return plan && plan->generation > __atomic_load_n(&trainer->generation, __ATOMIC_ACQUIRE);
}

/* On the control thread: only what cannot wait for the main thread to look at its queue. */
static void trainer_observe(void *context, const struct control_message *message)
{
    struct trainer *trainer = context;

    if (message->type == CONTROL_STOP) {
        __atomic_store_n(&trainer->stopping, true, __ATOMIC_RELEASE);
        break_off(trainer, "firnd ordered this worker to stop");
    } else if (message->type == CONTROL_HOLD) {
        __atomic_store_n(&trainer->held_generation, message->progress.generation, __ATOMIC_RELEASE);
    } else if (message->type == CONTROL_GO_ON) {
        __atomic_store_n(&trainer->held_generation, 0, __ATOMIC_RELEASE);
    } else if (message->type == CONTROL_SWITCH && is_newer(trainer, message->plan)) {
        if (message->plan->planned)
            __atomic_store_n(&trainer->announced, message->plan->generation, __ATOMIC_RELEASE);
        else
            break_off(trainer, "a newer generation replaces this one");
    } else if (message->type == CONTROL_PREPARE && is_newer(trainer, message->plan)) {
        wake_main(trainer); /* that plan is meant now: no more waiting for the links of this one */
    }
}

static bool stopping(const struct trainer *trainer)
{
    return __atomic_load_n(&trainer->stopping, __ATOMIC_ACQUIRE);
}

static void send_status(struct trainer *trainer, enum worker_phase phase, const char *text,
                        bool checkpoint_lost)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    if (!message) {
        log_error("no memory for a status");
        return;
    }
    message->type = CONTROL_STATUS;
    session_describe(trainer, phase, text, &message->status);
    message->status.checkpoint_lost = checkpoint_lost;
    trainer->phase = phase;
    control_server_send(trainer->control, message);
}

static void report_status(struct trainer *trainer, enum worker_phase phase, const char *text)
{
    send_status(trainer, phase, text, false);
}

static void handle_message(struct trainer *trainer, struct control_message *message)
{
    switch (message->type) {
    case CONTROL_PREPARE:
        if (is_newer(trainer, message->plan) &&
            (trainer->phase == WORKER_STARTING || trainer->phase == WORKER_PREPARED)) {
            trainer->prepared = message->plan->generation;
            report_status(trainer, WORKER_PREPARED, "");
        }
        break;
    case CONTROL_SWITCH:
        /* A planned plan takes over at a boundary, which one that is stuck will not come to. */
        if (message->plan && !(message->plan->planned && trainer->phase == WORKER_STUCK) &&
            message->plan->generation > trainer->generation &&
            (!trainer->pending || message->plan->generation > trainer->pending->generation)) {
            plan_free(trainer->pending);
            trainer->pending = message->plan;
            message->plan = NULL;
        }
        break;
    case CONTROL_CHECKPOINT:
        if (message->committed) {
            trainer->recorded_step = MAX(trainer->recorded_step, message->checkpoint.step);
            snapshot_retain(trainer->snapshot, message->checkpoint.kept_from,
                            message->checkpoint.step);
        } else if (message->checkpoint.generation == trainer->generation) {
            trainer->refused_step = message->checkpoint.step;
        }
        break;
    default:
        break;
    }
    control_message_done(message);
}

/* Look at what has come; with a deadline, wait for one message. */
void session_messages(struct trainer *trainer, uint64_t deadline_ns)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    while (message && control_server_take(trainer->control, deadline_ns, message)) {
        handle_message(trainer, message);
        memset(message, 0, sizeof(*message));
        deadline_ns = 0;
    }
}

bool session_stopping(const struct trainer *trainer)
{
    return stopping(trainer);
}

/* ---- generations ---- */

static void set_mesh(struct trainer *trainer, struct mesh *mesh)
{
    pthread_mutex_lock(&trainer->lock);
    trainer->mesh = mesh;
    pthread_mutex_unlock(&trainer->lock);
}

/* The engine goes first, for its requests live in the carriers, and these on the mesh. */
static void close_generation(struct trainer *trainer)
{
    struct mesh *mesh = trainer->mesh;

    snapshot_reset(trainer->snapshot);
    engine_free(trainer->engine);
    trainer->engine = NULL;
    straggler_free(trainer->straggler);
    trainer->straggler = NULL;
    routes_close(&trainer->routes);
    set_mesh(trainer, NULL);
    mesh_close(mesh);
}

static uint64_t deadline_after(const struct trainer *trainer, unsigned timeouts)
{
    return clock_monotonic_ns() + timeouts * trainer->options->failure_timeout_ns;
}

static int open_links(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    unsigned total = plan->worker_count + plan->donor_count;
    AUTO_FREE unsigned *ranks = calloc(total, sizeof(*ranks));
    AUTO_FREE struct mesh_peer *peers = calloc(total, sizeof(*peers));
    struct mesh_options options = {
        .generation = plan->generation,
        .rank = rank,
        .peers = peers,
        .listener = trainer->listener,
        .failure_timeout_ns = trainer->options->failure_timeout_ns,
        .unreached = &trainer->unreached,
        .connect_deadline_ns =
            clock_monotonic_ns() +
            start_time_ns(plan, &trainer->spec, trainer->options->failure_timeout_ns),
    };
    struct mesh *mesh;
    uint64_t drained;
    int status;

    if (!ranks || !peers)
        return error_set(error, -ENOMEM, "no memory for links");
    options.peer_count = plan_peers(plan, rank, ranks);
    for (unsigned i = 0; i < options.peer_count; i++) {
        const struct plan_worker *worker = &plan->workers[ranks[i]];
        peers[i].rank = ranks[i];
        snprintf(peers[i].name, sizeof(peers[i].name), "%s/%u", worker->node, worker->slot);
        snprintf(peers[i].address, sizeof(peers[i].address), "%s", worker->address);
    }
    snprintf(options.job, sizeof(options.job), "%s", plan->job);
    if (!plan_key_bytes(plan->key, options.key))
        return error_set(error, -EINVAL, "the plan of generation %" PRIu64 " has no link key",
                         plan->generation);
    if (read(trainer->cancel, &drained, sizeof(drained)) < 0 && errno != EAGAIN)
        return error_set(error, -errno, "reading an eventfd");
    session_messages(trainer, 0); /* what came before the eventfd was emptied */
    if (stopping(trainer) || (trainer->pending && !trainer->pending->planned))
        return -ECANCELED;
    status = mesh_open(&options, trainer->cancel, &mesh, error);
    if (!status)
        set_mesh(trainer, mesh);
    return status;
}

/* Before the old engine goes: a step that the survivors agreed to keep is applied from what it
 * holds. */
static void settle(struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    struct state *state = trainer->state;

    if (plan->has_commit && state->holds && plan->commit.step == state->applied_step + 1) {
        snapshot_release(trainer->snapshot);
        engine_apply(trainer->engine, &plan->commit);
        /* What was kept of the generation before has no gradients: it is a step behind now. */
        engine_drop_others(trainer->engine);
        session_record(trainer, 0, NULL);
    }
    state->holds = false;
}

/* With copies this node has a part of the checkpoint, or none, in its own folder. */
static int restore(struct trainer *trainer, unsigned first, unsigned count, struct error *error)
{
    const struct plan *plan = trainer->plan;
    char folder[JOB_PATH_SIZE];
    struct checkpoint_source source = {
        .folder = folder, .node = trainer->options->node, .manifest_sha256 = plan->restore_sha256};

    if (!plan->restore_sha256[0])
        return restore_units(trainer->state, plan->restore_path, first, count, error);
    checkpoint_path(trainer->options->checkpoint_dir, plan->resume_step, folder);
    int status =
        spread_remote(plan, trainer->options->failure_timeout_ns, NULL, &source.remote, error);
    if (!status)
        status = restore_copies(trainer->state, &source, first, count, error);
    checkpoint_remote_free(source.remote);
    return status;
}

static int obtain_stage(struct trainer *trainer, unsigned stage, struct error *error)
{
    const struct plan *plan = trainer->plan;
    unsigned first = plan->stage_first_unit[stage];
    unsigned count = plan->stage_first_unit[stage + 1] - first;

    if (plan->source == PLAN_SOURCE_CHECKPOINT)
        return restore(trainer, first, count, error);
    if (trainer->spec.model.from[0])
        return pretrained_units(trainer->state, first, count, error);
    return state_initialize(trainer->state, first, count, error);
}

/* State that the plan does not go on from makes room for what it needs, if that is enough. */
static int make_room(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;

    if (rank >= plan->worker_count)
        return 0;
    if (plan->source != PLAN_SOURCE_MEMORY)
        state_drop_all(trainer->state);
    const struct memory_need need = memory_need(trainer->state, plan, rank);
    int status = memory_check(trainer->state, &need, error);
    if (!status)
        memory_make_room(trainer->state, &need);
    return status;
}

/* What does not come from other workers: the rank's own stage and those that it shadows. */
static int obtain_state(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    int status;

    if (rank >= plan->worker_count || plan->source == PLAN_SOURCE_MEMORY)
        return 0;
    status = obtain_stage(trainer, rank % plan->stage_count, error);
    for (unsigned i = 0; !status && i < plan->shadow_count; i++)
        if (plan->shadows[i].rank == rank)
            status = obtain_stage(trainer, plan->shadows[i].stage, error);
    return status;
}

/* The switch that it is for will not come. */
static void forget_planned(struct trainer *trainer)
{
    if (!trainer->pending || !trainer->pending->planned)
        return;
    plan_free(trainer->pending);
    trainer->pending = NULL;
}

/* The state that the plan speaks of is not to be had. The leader must know whether that is because
 * of the checkpoint: then it has to take an older one. */
static enum session_outcome without_state(struct trainer *trainer, int status,
                                          const struct error *error)
{
    const struct plan *plan = trainer->plan;
    bool lost =
        plan->source == PLAN_SOURCE_CHECKPOINT && checkpoint_is_lost(plan->restore_path, status);
    const char *text = error->code ? error->text : strerror(-status);

    if (stopping(trainer))
        return SESSION_STOPPED;
    log_warning("generation %" PRIu64 " cannot begin here: %s", plan->generation, text);
    send_status(trainer, WORKER_STUCK, text, lost);
    forget_planned(trainer);
    return SESSION_BROKEN;
}

static int join(struct trainer *trainer, unsigned rank, struct error *error)
{
    int status = open_links(trainer, rank, error);

    if (!status && trainer->plan->source == PLAN_SOURCE_MEMORY)
        status = handover_run(trainer->state, trainer->plan, rank, trainer->mesh, error);
    if (status)
        return status;
    return rank < trainer->plan->worker_count ? session_open(trainer, rank, error)
                                              : session_exchange_histories(trainer, rank, error);
}

/* No other layout cures this: the job must not go on here. */
static enum session_outcome refuse(struct trainer *trainer, const struct error *error)
{
    log_error("%s", error->text);
    report_status(trainer, WORKER_REFUSED, error->text);
    return SESSION_STOPPED;
}

static enum session_outcome broken(struct trainer *trainer, int status, const struct error *error)
{
    if (stopping(trainer))
        return SESSION_STOPPED;
    if (status == -ECANCELED) /* before any link was up: the plan that replaces this one is here or
                                 on its way */
        return SESSION_BROKEN;
    if (trainer->mesh)
        mesh_abort(trainer->mesh, "this worker cannot go on");
    snapshot_release(trainer->snapshot);
    if (status == -EILSEQ)
        return refuse(trainer, error);
    log_warning("generation %" PRIu64 " broke: %s", trainer->plan->generation,
                error->code ? error->text : strerror(-status));
    report_status(trainer, WORKER_STUCK, error->code ? error->text : "");
    forget_planned(trainer);
    return SESSION_BROKEN;
}

/*
 * A plan after a failure speaks of one step boundary: state of another one must not be mixed into
 * it. Where the plan does not ask for this very process, nothing that is here is counted on: older
 * state goes, and all that is needed comes from others. No generation begins with a unit missing.
 */
static bool fits(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    const struct state *state = trainer->state;
    bool held[STEP_RECORD_UNITS_MAX];
    unsigned first, count;

    state_held_range(state, 0, &first, &count);
    bool another_step = plan->source == PLAN_SOURCE_MEMORY && !plan->planned && count &&
                        state->applied_step != plan->resume_step;
    if (another_step && plan->workers[rank].instance != 0) {
        error_set(error, -ESTALE,
                  "generation %" PRIu64 " goes on from step %" PRIu64
                  ", but this worker is at step %" PRIu64,
                  plan->generation, plan->resume_step, state->applied_step);
        return false;
    }
    if (another_step)
        state_drop_all(trainer->state);
    state_list_held(state, held);
    unsigned lacking = holdings_lacking(held, state->unit_count, plan, rank);
    if (lacking < state->unit_count)
        error_set(error, -ESTALE,
                  "generation %" PRIu64 " counts on unit %u here, which this worker does not have",
                  plan->generation, lacking);
    return lacking == state->unit_count;
}

/* One generation from its plan to its end; the plan has become trainer->plan. */
static enum session_outcome run_generation(struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    int rank = plan_find(plan, trainer->options->node, trainer->options->slot);
    struct error error = {0};
    int status;

    settle(trainer);
    close_generation(trainer);
    trainer->unreached.count = 0;
    if (rank < 0)
        return SESSION_LEFT;
    if (!fits(trainer, (unsigned)rank, &error))
        return broken(trainer, error.code, &error);
    if (plan->planned) /* should the new generation never come up, this is what is known of this
                          worker */
        report_status(trainer, WORKER_PREPARED, "");
    if (make_room(trainer, (unsigned)rank, &error))
        return refuse(trainer, &error);
    status = obtain_state(trainer, (unsigned)rank, &error);
    if (status)
        return without_state(trainer, status, &error);
    status = join(trainer, (unsigned)rank, &error);
    if (status)
        return broken(trainer, status, &error);
    if ((unsigned)rank >= plan->worker_count) {
        status = handover_await_release(plan, (unsigned)rank, trainer->mesh);
        return status ? broken(trainer, status, &error) : SESSION_LEFT;
    }
    report_status(trainer, WORKER_RUNNING, "");
    enum session_outcome outcome = session_train(trainer, &error);
    return outcome == SESSION_BROKEN ? broken(trainer, error.code, &error) : outcome;
}

/* Wait for a plan that is newer than the one before; NULL when ordered to stop. */
static struct plan *next_plan(struct trainer *trainer, uint64_t deadline_ns)
{
    while (!stopping(trainer) && !trainer->pending && clock_monotonic_ns() < deadline_ns)
        session_messages(trainer, MIN(deadline_ns, deadline_after(trainer, 1)));
    struct plan *plan = stopping(trainer) ? NULL : trainer->pending;
    if (plan)
        trainer->pending = NULL;
    return plan;
}

const struct plan *session_announced_plan(struct trainer *trainer)
{
    uint64_t deadline_ns = deadline_after(trainer, ANNOUNCED_TIMEOUTS);

    while (!stopping(trainer) && !trainer->pending && clock_monotonic_ns() < deadline_ns)
        session_messages(trainer, deadline_ns);
    return trainer->pending;
}

static int train_generations(struct trainer *trainer)
{
    for (;;) {
        struct plan *plan = next_plan(trainer, UINT64_MAX);
        if (!plan)
            return -ECANCELED;
        struct plan *old = trainer->plan;
        trainer->plan = plan;
        __atomic_store_n(&trainer->generation, plan->generation, __ATOMIC_RELEASE);
        enum session_outcome outcome = run_generation(trainer);
        plan_free(old);
        switch (outcome) {
        case SESSION_SWITCH:
        case SESSION_BROKEN:
            break;
        case SESSION_LEFT:
            report_status(trainer, WORKER_LEFT, "");
            return 0;
        case SESSION_FINISHED:
            report_status(trainer, WORKER_FINISHED, "");
            return 0;
        case SESSION_STOPPED:
            return -ECANCELED;
        }
    }
}

/* ---- start and end ---- */

static int load_spec(struct trainer *trainer, struct error *error)
{
    const char *path = trainer->options->spec_path;
    struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    int status = file_read(path, SPEC_FILE_MAX, &text, error);

    if (!status)
        status = json_parse((const char *)text.data, text.size_bytes, path, &tree, error);
    if (!status)
        status = job_spec_decode(tree, path, NULL, NULL, &trainer->spec, error);
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
        status = kernel->open(&device, &trainer->device, error);
    if (!status)
        trainer->kernel = kernel;
    return status;
}

static int open_device(struct trainer *trainer, struct error *error)
{
    const struct snapshot_options snapshots = {
        .folder = trainer->options->checkpoint_dir,
        .node = trainer->options->node,
        .timeout_ns = trainer->options->failure_timeout_ns,
    };
    int status = open_kernel(trainer, error);

    if (!status)
        status =
            state_new(&trainer->spec, trainer->kernel, trainer->device, &trainer->state, error);
    if (!status)
        status = snapshot_new(trainer->state, &snapshots, &trainer->snapshot, error);
    return status;
}

static int open_all(struct trainer *trainer, struct error *error)
{
    const struct worker_options *options = trainer->options;
    int status = load_spec(trainer, error);

    if (!status)
        status = file_make_directories(options->job_dir, 0755, error);
    if (!status)
        status = mesh_listen(options->listen, &trainer->listener, error);
    if (!status)
        status = open_device(trainer, error);
    if (status)
        return status;
    algorithms_log(&trainer->algorithms, trainer->kernel, trainer->device);
    nccl_use_init(&trainer->nccl, trainer->kernel, trainer->device);
    return session_dataset(&trainer->spec, &trainer->dataset, error);
}

static int trainer_init(struct trainer *trainer, const struct worker_options *options,
                        struct error *error)
{
    *trainer = (struct trainer){.options = options, .listener = -1, .validation_loss = NAN};
    pthread_mutex_init(&trainer->lock, NULL);
    if (getrandom(&trainer->instance, sizeof(trainer->instance), 0) != sizeof(trainer->instance))
        return error_set(error, -EIO, "no random numbers from the kernel");
    trainer->instance >>= 1; /* JSON integers are signed */
    trainer->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (trainer->cancel < 0)
        return error_set(error, -errno, "making an eventfd: %s", strerror(errno));
    int status = control_server_start(options->socket_path, trainer_observe, trainer,
                                      &trainer->control, error);
    /* From now on another firnd would find it: it no longer goes when the one that started it does.
     */
    if (!status && prctl(PR_SET_PDEATHSIG, 0))
        status = error_set(error, -errno, "prctl: %s", strerror(errno));
    return status;
}

static void trainer_done(struct trainer *trainer)
{
    control_server_stop(trainer->control);
    if (trainer->snapshot)
        close_generation(trainer);
    snapshot_free(trainer->snapshot);
    metrics_close(trainer->metrics);
    dataset_close(trainer->dataset);
    state_free(trainer->state);
    algorithms_done(&trainer->algorithms);
    nccl_use_done(&trainer->nccl);
    if (trainer->kernel)
        trainer->kernel->close(trainer->device);
    plan_free(trainer->plan);
    plan_free(trainer->pending);
    close_descriptor(&trainer->listener);
    close_descriptor(&trainer->cancel);
    pthread_mutex_destroy(&trainer->lock);
}

int trainer_run(const struct worker_options *options, struct error *error)
{
    AUTO_FREE struct trainer *trainer = malloc(sizeof(*trainer));
    int status;

    if (!trainer)
        return error_set(error, -ENOMEM, "no memory for a worker");
    status = trainer_init(trainer, options, error);
    if (!status) {
        report_status(trainer, WORKER_STARTING, "");
        status = open_all(trainer, error);
        if (status)
            report_status(trainer, WORKER_REFUSED, error->text);
        else
            status = train_generations(trainer);
    }
    trainer_done(trainer);
    return status;
}
