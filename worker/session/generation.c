#include "worker/session/generation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "comm/mesh/doorman.h"
#include "elastic/job/job_spec.h"
#include "elastic/planner/process_memory.h"
#include "elastic/planner/start_time.h"
#include "elastic/recovery/holdings.h"
#include "protocol/generation_entry.h"
#include "worker/checkpoint/replication.h"
#include "worker/session/commands.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/restored_folder.h"
#include "worker/session/status_report.h"
#include "worker/state/handover.h"
#include "worker/state/pretrained.h"
#include "worker/state/restore.h"
#include "worker/step/kept_step.h"
#include "worker/step/memory.h"
#include "worker/step/moved_sums.h"
#include "worker/trace/recorder.h"

static struct generation_entry entry_of(const struct state *state)
{
    unsigned first, count;

    state_held_range(state, 0, &first, &count);
    return (struct generation_entry){
        .applied_step = state->applied_step, .holds = state->holds, .has_state = count > 0};
}

/* ---- leaving the last generation ---- */

/* Wait until the parameters may change. A share of a generation that has ended is given up. */
static void await_release(struct trainer *trainer)
{
    const uint64_t timeout_ns = trainer->options->failure_timeout_ns;
    struct snapshot *snapshot = trainer->checkpoints.snapshot;
    unsigned timeouts = 0;

    while (!snapshot_release_until(snapshot, clock_monotonic_ns() + timeout_ns)) {
        if (trainer->links.mesh && mesh_broken(trainer->links.mesh))
            snapshot_give_up(snapshot);
        if (++timeouts == TIMEOUTS_SLOW_DISK)
            status_report_alarm(&trainer->report, ALARM_CHECKPOINT,
                                "training waits for a checkpoint: its disk writes too slowly, or "
                                "not at all");
    }
}

/* Forget outputs of layers whose weights change again: the files belong to the old weights. */
static void forget_outputs(struct trainer *trainer)
{
    frozen_weights_forget(trainer->frozen.weights);
    frozen_outputs_leave(trainer->frozen.outputs);
}

void generation_apply(struct trainer *trainer, const struct step_record *record)
{
    uint64_t began_ns = clock_monotonic_ns();

    await_release(trainer);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_SNAPSHOT, record->step);
    began_ns = clock_monotonic_ns();
    unsigned frozen_before = trainer->state->freeze.frozen_layers;
    engine_apply(trainer->engine, record);
    if (trainer->state->freeze.frozen_layers < frozen_before)
        forget_outputs(trainer);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_OPTIMIZER, record->step);
    recorder_applied(trainer->recorder, record->step);
}

int generation_settle(struct trainer *trainer, struct error *error)
{
    const struct plan *plan = trainer->plan;
    struct state *state = trainer->state;

    const struct generation_entry entry = entry_of(state);
    if (generation_entry_applies(&entry, plan)) {
        /* A leader of an older version may ask for it; a new leader never does. */
        int status = divergence_check(&trainer->spec.train, &plan->start.commit, error);
        if (status)
            return status;
        generation_apply(trainer, &plan->start.commit);
        trainer->commit.before_ns = 0;
        /* Units kept only as a donor have no gradients: they are one step behind now. */
        engine_drop_others(trainer->engine);
        trainer->metrics.final_known = false;
        if (!metrics_writer_waits(trainer))
            metrics_writer_record(trainer, 0, NULL);
    }
    state->holds = false;
    return 0;
}

static void set_mesh(struct session_links *links, struct mesh *mesh)
{
    pthread_mutex_lock(&links->lock);
    links->mesh = mesh;
    pthread_mutex_unlock(&links->lock);
}

/* In this order: the engine's requests belong to the carriers, and these to the mesh. */
void generation_close(struct trainer *trainer)
{
    struct mesh *mesh = trainer->links.mesh;

    snapshot_reset(trainer->checkpoints.snapshot);
    generation_end_sums(trainer);
    if (trainer->engine) {
        generation_forget_step(trainer);
        trainer->kept = engine_close(trainer->engine);
        if (trainer->kept) /* nobody waited before */
            trainer->commit.last_ns = trainer->commit.stopped_ns;
    }
    trainer->engine = NULL;
    straggler_free(trainer->commit.straggler);
    trainer->commit.straggler = NULL;
    routes_close(&trainer->links.routes);
    generation_end_handover(trainer);
    set_mesh(&trainer->links, NULL);
    mesh_close(mesh);
}

void generation_end_handover(struct trainer *trainer)
{
    if (trainer->engine)
        trainer->engine->arrivals.handover = NULL;
    handover_close(trainer->handover);
    trainer->handover = NULL;
}

void generation_end_sums(struct trainer *trainer)
{
    struct engine *engine = trainer->engine;

    if (engine)
        engine->arrivals.sums = NULL;
    moved_sums_close(trainer->sums, engine ? engine->gradients : NULL);
    trainer->sums = NULL;
}

void generation_drop_state(struct trainer *trainer)
{
    generation_forget_step(trainer);
    trainer->commit.before_ns = 0;
    forget_outputs(trainer);
    state_drop_all(trainer->state);
}

void generation_forget_step(struct trainer *trainer)
{
    kept_step_free(trainer->kept);
    trainer->kept = NULL;
}

/* Return whether this rank has all units with which it must begin the generation. */
static bool has_units(const struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    bool held[STEP_RECORD_UNITS_MAX];

    state_list_held(trainer->state, held);
    unsigned lacking = holdings_lacking(held, trainer->state->unit_count, plan, rank);
    if (lacking < trainer->state->unit_count)
        error_set(error, -ESTALE,
                  "generation %" PRIu64 " counts on unit %u here, which this worker does not have",
                  plan->generation, lacking);
    return lacking == trainer->state->unit_count;
}

bool generation_fits(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    const struct generation_entry entry = entry_of(trainer->state);

    switch (generation_entry_state(&entry, plan, rank)) {
    case GENERATION_ENTRY_KEEPS:
        break;
    case GENERATION_ENTRY_DROPS:
        generation_drop_state(trainer);
        break;
    case GENERATION_ENTRY_REFUSES:
        error_set(error, -ESTALE,
                  "generation %" PRIu64 " goes on from step %" PRIu64
                  ", but this worker is at step %" PRIu64,
                  plan->generation, plan->start.resume_step, entry.applied_step);
        return false;
    }
    return has_units(trainer, rank, error);
}

bool generation_steps_aside(const struct trainer *trainer)
{
    const struct generation_entry entry = entry_of(trainer->state);

    return generation_entry_steps_aside(&entry, trainer->plan);
}

/* ---- state ---- */

/* Forget the step in progress if the next engine has no room beside it. */
static void keep_step(struct trainer *trainer, unsigned rank, const struct memory_need *need)
{
    const struct plan *plan = trainer->plan;

    if (trainer->kept &&
        (memory_is_short(trainer->state, need) ||
         !kept_step_fits(trainer->kept, trainer->state, &plan->layout, rank, need)))
        generation_forget_step(trainer);
}

/* Drop state that the plan does not continue from, then check that the need fits. */
int generation_make_room(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;

    if (plan->start.source != PLAN_SOURCE_MEMORY)
        generation_forget_step(trainer);
    if (rank >= plan->layout.worker_count)
        return 0;
    if (plan->start.source != PLAN_SOURCE_MEMORY) {
        generation_drop_state(trainer);
        dispute_memory_rollback(&trainer->commit.disputes);
    }
    reserve_let_go(trainer, &plan->layout, rank);
    bool sums_on_device =
        trainer->device.kernel->host_memory || nccl_use_is_offered(&trainer->device.nccl);
    const struct memory_need need =
        memory_need(trainer->state, &plan->layout, rank, sums_on_device);
    keep_step(trainer, rank, &need);
    int status = memory_check(trainer->state, &need, error);
    if (!status)
        memory_make_room(trainer->state, &need);
    return status;
}

/* Note the plan's nodes that did not respond, for the report to the leader. */
static void note_silent(struct session_links *links, const struct plan *plan,
                        const struct checkpoint_remote *remote)
{
    struct mesh_unreached *unreached = &links->unreached;

    for (unsigned i = 0; i < checkpoint_remote_count(remote); i++) {
        int rank = checkpoint_remote_silent(remote, i)
                       ? plan_layout_find_node(&plan->layout, checkpoint_remote_name(remote, i))
                       : -1;
        if (rank >= 0 && unreached->count < MESH_UNREACHED_MAX)
            unreached->ranks[unreached->count++] = (unsigned)rank;
    }
}

/* With copies this node's own folder has a part of the checkpoint, or none. */
static int restore(struct trainer *trainer, unsigned first, unsigned count, struct error *error)
{
    const struct plan *plan = trainer->plan;
    char folder[JOB_PATH_SIZE];
    struct checkpoint_source source = {.folder = folder,
                                       .node = trainer->options->node,
                                       .manifest_sha256 = plan->start.restore_sha256};

    if (!plan->start.restore_sha256[0])
        return restore_units(trainer->state, plan->start.restore_path, first, count, error);
    checkpoint_path(trainer->options->checkpoint_dir, plan->start.resume_step, folder);
    int status =
        replication_remote(plan, trainer->options->failure_timeout_ns, NULL, &source.remote, error);
    if (!status)
        status = restore_copies(trainer->state, &source, first, count, error);
    if (status == -EHOSTUNREACH && source.remote)
        note_silent(&trainer->links, trainer->plan, source.remote);
    checkpoint_remote_free(source.remote);
    return status;
}

static int obtain_stage(struct trainer *trainer, unsigned stage, struct error *error)
{
    const struct plan *plan = trainer->plan;
    unsigned first = plan->layout.stage_first_unit[stage];
    unsigned count = plan->layout.stage_first_unit[stage + 1] - first;

    if (plan->start.source == PLAN_SOURCE_CHECKPOINT)
        return restore(trainer, first, count, error);
    if (trainer->spec.model.from[0])
        return pretrained_units(trainer->state, first, count, error);
    return state_initialize(trainer->state, first, count, error);
}

/* Obtain the units of the rank's own stage and of those that it shadows. */
int generation_obtain_state(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    char folder[JOB_PATH_SIZE];
    int status;

    if (rank >= plan->layout.worker_count || plan->start.source == PLAN_SOURCE_MEMORY)
        return 0;
    if (plan->start.source == PLAN_SOURCE_CHECKPOINT) {
        restored_folder_format(trainer, folder);
        snapshot_keep_restored(trainer->checkpoints.snapshot, folder);
    }
    status = obtain_stage(trainer, rank % plan->layout.stage_count, error);
    for (unsigned i = 0; !status && i < plan->layout.shadow_count; i++)
        if (plan->layout.shadows[i].rank == rank)
            status = obtain_stage(trainer, plan->layout.shadows[i].stage, error);
    return status;
}

/* ---- links ---- */

/* Limit of unexpected messages from a peer; 0: an equal share of the memory, for peers that are not
 * neighbours in the pipeline. */
static uint64_t unexpected_bytes(const struct trainer *trainer, unsigned rank, unsigned peer)
{
    const struct plan *plan = trainer->plan;
    const struct job_spec *spec = &trainer->spec;
    unsigned stages = plan->layout.stage_count, stage = rank % stages;
    uint64_t boundary_bytes = (uint64_t)spec->train.micro_batch * spec->model.context *
                              spec->model.width * trainer->device.kernel->activation_size;
    bool pipeline = rank < plan->layout.worker_count && peer < plan->layout.worker_count;

    if (pipeline && stage > 0 && peer + 1 == rank)
        return PROCESS_NEIGHBOUR_BYTES + PROCESS_MESSAGES_FORWARD(stages - stage) * boundary_bytes;
    if (pipeline && stage + 1 < stages && peer == rank + 1)
        return PROCESS_NEIGHBOUR_BYTES + PROCESS_MESSAGES_BACKWARD * boundary_bytes;
    return 0;
}

static uint64_t links_timeout_ns(const struct trainer *trainer, const struct plan *named)
{
    const struct plan *plan = trainer->plan;
    uint64_t start_ns =
        start_time_ns(&plan->layout, &trainer->spec.model, trainer->options->failure_timeout_ns);
    uint64_t limit_ns = generation_entry_links_ns(plan, named, start_ns, trainer->commit.turn_ns);

    return limit_ns == GENERATION_ENTRY_NO_LIMIT ? MESH_NO_TIMEOUT : limit_ns;
}

/* Open the links among the ranks of the present plan, with the key and the number of @named.
 * @newcomer: the others may still train */
static int open_links(struct trainer *trainer, unsigned rank, const struct plan *named,
                      bool newcomer, struct error *error)
{
    const struct plan *plan = trainer->plan;
    unsigned total = plan->layout.worker_count + plan->layout.donor_count;
    AUTO_FREE unsigned *ranks = calloc(total, sizeof(*ranks));
    AUTO_FREE struct mesh_peer *peers = calloc(total, sizeof(*peers));
    struct mesh_options options = {
        .generation = named->generation,
        .rank = rank,
        .peers = peers,
        .listener = trainer->listener,
        .failure_timeout_ns = trainer->options->failure_timeout_ns,
        .patient = named->links.patient,
        .checksums = trainer->options->link_checksums,
        .any_address = trainer->options->link_any_address,
        .unreached = &trainer->links.unreached,
        .unexpected_max_bytes = process_link_bytes(&trainer->spec.model),
        .connect_timeout_ns = links_timeout_ns(trainer, named),
    };
    struct mesh *mesh;
    uint64_t drained;
    int status;

    if (!ranks || !peers)
        return error_set(error, -ENOMEM, "no memory for links");
    options.peer_count = plan_peers(plan, rank, named == plan, ranks);
    for (unsigned i = 0; i < options.peer_count; i++) {
        const struct plan_worker *worker = &plan->layout.workers[ranks[i]];
        peers[i].rank = ranks[i];
        peers[i].unexpected_max_bytes = unexpected_bytes(trainer, rank, ranks[i]);
        peers[i].joins_later = newcomer && worker->instance != 0;
        peers[i].same_node = strcmp(worker->node, trainer->options->node) == 0;
        snprintf(peers[i].name, sizeof(peers[i].name), "%s/%u", worker->node, worker->slot);
        snprintf(peers[i].address, sizeof(peers[i].address), "%s", worker->address);
    }
    snprintf(options.job, sizeof(options.job), "%s", plan->job);
    if (!plan_key_bytes(named->links.key, options.key))
        return error_set(error, -EINVAL, "the plan of generation %" PRIu64 " has no link key",
                         named->generation);
    __atomic_store_n(&trainer->commands.waits_for_switch, newcomer, __ATOMIC_RELEASE);
    if (read(trainer->commands.cancel, &drained, sizeof(drained)) < 0 && errno != EAGAIN)
        return error_set(error, -errno, "reading an eventfd");
    if (named == plan && !newcomer)
        pending_plan_enter(&trainer->commands.pending, plan->generation);
    commands_take(trainer, 0); /* messages that arrived before the eventfd was emptied */
    bool replaced =
        generation_entry_is_replaced(trainer->commands.pending.plan, plan->generation, newcomer);
    mesh_doorman_rest(trainer->doorman, true);
    status = commands_stopping(&trainer->commands) || replaced
                 ? -ECANCELED
                 : mesh_open(&options, trainer->commands.cancel, &mesh, error);
    __atomic_store_n(&trainer->commands.waits_for_switch, false, __ATOMIC_RELEASE);
    mesh_doorman_rest(trainer->doorman, false);
    if (status)
        return status;
    set_mesh(&trainer->links, mesh);
    pending_plan_enter(&trainer->commands.pending, 0);
    trainer->commit.turn_ns = 0;
    return 0;
}

int generation_join(struct trainer *trainer, unsigned rank, struct error *error)
{
    const struct plan *plan = trainer->plan;
    uint64_t began_ns = clock_monotonic_ns();
    int status = open_links(trainer, rank, plan, generation_entry_is_newcomer(plan, rank), error);

    recorder_add_kind(trainer->recorder, began_ns, TRACE_LINKS, plan->start.resume_step + 1);
    if (status || plan->start.source != PLAN_SOURCE_MEMORY)
        return status;
    began_ns = clock_monotonic_ns();
    status =
        handover_begin(trainer->state, plan, rank, trainer->links.mesh, &trainer->handover, error);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_HANDOVER, plan->start.resume_step + 1);
    return status;
}

int generation_rejoin(struct trainer *trainer, unsigned rank, const struct plan *next,
                      struct error *error)
{
    generation_close(trainer);
    generation_forget_step(trainer);
    return open_links(trainer, rank, next, false, error);
}

int generation_finish_handover(struct trainer *trainer, struct error *error)
{
    uint64_t began_ns = clock_monotonic_ns();

    if (!trainer->handover)
        return 0;
    int status = handover_finish(trainer->handover);
    if (!status)
        status_report_running(trainer);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_HANDOVER,
                      trainer->plan->start.resume_step + 1);
    return status
               ? error_set(error, status, "generation %" PRIu64 ": handing over state failed: %s",
                           trainer->plan->generation, strerror(-status))
               : 0;
}

/* ---- when it has begun ---- */

/* Every worker has read its part, or there would be no commit: the whole checkpoint was read. */
static void mark_restored(const struct trainer *trainer)
{
    const struct plan *plan = trainer->plan;
    char folder[JOB_PATH_SIZE];
    struct error error = {0};

    restored_folder_format(trainer, folder);
    if (plan->start.source == PLAN_SOURCE_CHECKPOINT && trainer->engine->part.rank == 0 &&
        (!plan->start.restore_sha256[0] || !access(folder, F_OK)) &&
        checkpoint_mark_verified(folder, &error))
        log_warning("the checkpoint is good, but cannot be marked as verified: %s", error.text);
}

/* The oldest generation whose checkpoint may still be committed. */
static uint64_t oldest_writer(const struct plan *plan)
{
    return plan->change.planned ? plan->follows : plan->generation;
}

int generation_confirm(struct trainer *trainer)
{
    const struct engine *engine = trainer->engine;

    if (!trainer->commit.first)
        return 0;
    int status = trainer->sums ? moved_sums_advance(trainer->sums) : 0; /* releases donors */
    if (status)
        return status;
    trainer->commit.first = false;
    generation_end_handover(trainer);
    generation_end_sums(trainer);
    mark_restored(trainer);
    if (engine->part.rank == 0)
        snapshot_sweep(trainer->checkpoints.snapshot, oldest_writer(trainer->plan));
    snapshot_release(trainer->checkpoints.snapshot);
    engine_drop_others(trainer->engine);
    footprint_restart(&trainer->device.footprint);
    numerics_log_write(&trainer->device.numerics, trainer->device.kernel, trainer->device.device);
    trainer->device.has_trained = true;
    return handover_release(trainer->plan, engine->part.rank, trainer->links.mesh);
}
