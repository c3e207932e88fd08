#include "worker/checkpoint/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/folder_home.h"
#include "checkpoint/write/retain.h"
#include "checkpoint/write/writable.h"
#include "elastic/copies/copies.h"
#include "elastic/job/job_spec.h"
#include "protocol/checkpoint_progress.h"
#include "worker/checkpoint/boundary.h"
#include "worker/checkpoint/checkpoint_commit.h"
#include "worker/checkpoint/copy_keeper.h"
#include "worker/checkpoint/part_file.h"
#include "worker/checkpoint/retention.h"
#include "worker/checkpoint/share_copy.h"
#include "worker/checkpoint/share_tensors.h"
#include "worker/checkpoint/state_writer.h"

/* The share of this rank on its way to disk. */
struct snapshot_share {
    struct checkpoint_writer *writer;
    bool staged;                      /* the share's memory is released */
    uint64_t stall_ns;                /* time that the optimizer waited for the release */
    struct share_copy *copy;          /* NULL: the writer reads the state in place */
    struct checkpoint_share *copying; /* begun, but not with the writer yet */
    struct share_tensors copying_tensors;
};

/* With copies: the node's part in the step begun last. */
struct snapshot_copies {
    char node[NAME_SIZE];
    uint64_t timeout_ns;
    struct replication *replication; /* NULL: one folder for all nodes */
    struct copy_keeper *keeper;      /* NULL on rank 0, whose commit does the same */
};

/* On rank 0: the commit in flight, and the outcome of the previous one. */
struct snapshot_outcome {
    struct checkpoint_commit *commit;
    struct control_checkpoint *unreported; /* a commit not reported in its own generation */
    char warning[CONTROL_TEXT_SIZE];       /* of the last commit */
};

struct snapshot {
    const struct state *state; /* borrowed */
    const struct io *io;
    char folder[JOB_PATH_SIZE];
    struct checkpoint_home home;      /* of `folder`; only the writer uses it once started */
    char metrics_path[JOB_PATH_SIZE]; /* rank 0: file of this node; else "" */
    char restored[JOB_PATH_SIZE];     /* the checkpoint that this worker restored, or "" */
    struct boundary begun;
    struct snapshot_share share;
    struct checkpoint_progress progress;
    struct snapshot_copies copies;
    struct snapshot_outcome outcome;
    struct retention *retention, *sweep; /* the last ones; NULL before the first */
};

int snapshot_new(const struct state *state, const struct snapshot_options *options,
                 struct snapshot **ret_snapshot, struct error *error)
{
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    const char *why;
    int status;

    if (!snapshot)
        return error_set(error, -ENOMEM, "no memory for checkpoints");
    snapshot->state = state;
    snapshot->io = io_probe(&why);
    log_info("checkpoints are written with %s: %s", snapshot->io->name, why);
    snprintf(snapshot->folder, sizeof(snapshot->folder), "%s", options->folder);
    checkpoint_home_init(&snapshot->home, options->folder);
    snprintf(snapshot->copies.node, sizeof(snapshot->copies.node), "%s", options->node);
    snapshot->copies.timeout_ns = options->timeout_ns;
    if (!state->kernel->host_memory &&
        share_copy_new(state->kernel, state->device, &snapshot->share.copy)) {
        free(snapshot);
        return error_set(error, -ENOMEM, "no memory for checkpoints");
    }
    status =
        state_writer_start(state, snapshot->io, options->folder, &snapshot->share.writer, error);
    if (status) {
        share_copy_free(snapshot->share.copy);
        free(snapshot);
        return status;
    }
    *ret_snapshot = snapshot;
    return 0;
}

int snapshot_try(const struct snapshot *snapshot, struct error *error)
{
    bool shared = !job_keeps_copies(snapshot->state->spec); /* else a node writes only a part */

    return checkpoint_writable(snapshot->folder, shared ? state_writer_bytes(snapshot->state) : 0,
                               error);
}

static void forget_copying(struct snapshot_share *share)
{
    free(share->copying);
    share->copying = NULL;
    share_tensors_done(&share->copying_tensors);
}

static void forget_unreported(struct snapshot_outcome *outcome)
{
    if (outcome->unreported)
        control_checkpoint_done(outcome->unreported);
    free(outcome->unreported);
    outcome->unreported = NULL;
}

static void warn_of_left_out(const struct boundary *boundary, struct snapshot_outcome *outcome)
{
    if (!outcome->warning[0] && boundary->left_out_node[0])
        snprintf(outcome->warning, sizeof(outcome->warning),
                 "node %s cannot write its part of checkpoints (firnctl job events says why): "
                 "others write it, and the node is tried again now and then",
                 boundary->left_out_node);
}

/* End a commit; a successful one is kept for the next report. */
static int end_commit(struct snapshot *snapshot, struct error *error)
{
    uint64_t step = checkpoint_commit_step(snapshot->outcome.commit);
    uint64_t generation = checkpoint_commit_generation(snapshot->outcome.commit);
    struct control_checkpoint *result = calloc(1, sizeof(*result)), lost;
    int status = checkpoint_commit_finish(snapshot->outcome.commit, result ? result : &lost,
                                          snapshot->outcome.warning, error);

    snapshot->outcome.commit = NULL;
    if (!status && !result) {
        control_checkpoint_done(&lost);
        status = error_set(error, -ENOMEM, "no memory to tell of a checkpoint");
    }
    checkpoint_progress_commit_ended(&snapshot->progress, step, generation, !status);
    if (status) {
        free(result);
        return status;
    }
    forget_unreported(&snapshot->outcome);
    snapshot->outcome.unreported = result;
    warn_of_left_out(&snapshot->begun, &snapshot->outcome);
    return 0;
}

/* Abandon copies in flight: the next generation has another key and other nodes. */
static void end_replication(struct snapshot *snapshot)
{
    struct error error = {0};

    if (!snapshot->copies.replication)
        return;
    atomic_store(&snapshot->copies.replication->stop, true);
    if (snapshot->outcome.commit && end_commit(snapshot, &error) && error.code != -ECANCELED)
        log_warning("%s", error.text);
    if (snapshot->copies.keeper && copy_keeper_finish(snapshot->copies.keeper, &error) &&
        error.code != -ECANCELED)
        log_warning("%s", error.text);
    snapshot->copies.keeper = NULL;
    checkpoint_progress_end_copies(&snapshot->progress);
    replication_free(snapshot->copies.replication);
    snapshot->copies.replication = NULL;
}

void snapshot_free(struct snapshot *snapshot)
{
    struct error error = {0};

    if (!snapshot)
        return;
    end_replication(snapshot);
    if (snapshot->outcome.commit && end_commit(snapshot, &error))
        log_warning("%s", error.text);
    forget_unreported(&snapshot->outcome);
    retention_free(snapshot->retention);
    retention_free(snapshot->sweep);
    checkpoint_writer_stop(snapshot->share.writer);
    forget_copying(&snapshot->share);
    share_copy_free(snapshot->share.copy);
    boundary_done(&snapshot->begun);
    free(snapshot);
}

void snapshot_keep_history(struct snapshot *snapshot, const char *metrics_path)
{
    snprintf(snapshot->metrics_path, sizeof(snapshot->metrics_path), "%s", metrics_path);
}

void snapshot_keep_restored(struct snapshot *snapshot, const char *path)
{
    snprintf(snapshot->restored, sizeof(snapshot->restored), "%s", path);
}

void snapshot_reset(struct snapshot *snapshot)
{
    snapshot_give_up(snapshot);
    snapshot_release(snapshot);
    if (snapshot->share.copying) {
        forget_copying(&snapshot->share);
        checkpoint_progress_share_ended(&snapshot->progress, CHECKPOINT_OUTCOME_FAILED);
    }
    snapshot_forget(snapshot);
}

/* Begin the copy to the host; the writer gets the share when the copy is complete. */
static int begin_copying(struct snapshot_share *snapshot_share,
                         const struct checkpoint_share *share, struct share_tensors *tensors)
{
    int status = share_copy_reserve(snapshot_share->copy, tensors->size_bytes, tensors->count);

    if (status)
        return status;
    snapshot_share->copying = malloc(sizeof(*snapshot_share->copying));
    if (!snapshot_share->copying)
        return -ENOMEM;
    share_copy_begin(snapshot_share->copy);
    for (unsigned i = 0; i < tensors->count; i++) {
        struct checkpoint_tensor *tensor = &tensors->list[i];
        tensor->data = share_copy_add(snapshot_share->copy, tensor->data, tensor->count);
        assert(tensor->data);
    }
    share_copy_end(snapshot_share->copy);
    *snapshot_share->copying = *share;
    snapshot_share->copying_tensors = *tensors; /* with ownership of the list */
    *tensors = (struct share_tensors){0};
    return 0;
}

static int begin_share(struct snapshot *snapshot, const struct plan *plan)
{
    CLEANUP(share_tensors_done) struct share_tensors tensors = {0};
    struct checkpoint_share share = {
        .step = snapshot->begun.step,
        .generation = snapshot->begun.generation,
        .rank = snapshot->begun.rank,
        .world = snapshot->begun.world,
    };
    int status = share_tensors_of(snapshot->state, &plan->layout, snapshot->begun.rank,
                                  snapshot->begun.left_out, &tensors);

    if (status)
        return status;
    snprintf(share.job, sizeof(share.job), "%s", plan->job);
    snprintf(share.folder, sizeof(share.folder), "%s", snapshot->folder);
    share.home = &snapshot->home;
    share.tensors = tensors.list;
    share.tensor_count = tensors.count;
    return snapshot->share.copy ? begin_copying(&snapshot->share, &share, &tensors)
                                : checkpoint_writer_begin(snapshot->share.writer, &share);
}

/* List the tensors of @rank's share when all layers train that may ever train. */
static int list_thawed(const struct state *state, const struct plan_layout *layout, unsigned rank,
                       struct share_tensors *ret_tensors)
{
    AUTO_FREE struct state *thawed = malloc(sizeof(*thawed));

    if (!thawed)
        return -ENOMEM;
    *thawed = *state;
    thawed->freeze.frozen_layers = freeze_settled(&state->spec->elastic.freeze, &state->spec->model,
                                                  state->freeze.frozen_layers);
    return share_tensors_of(thawed, layout, rank, NULL, ret_tensors);
}

int snapshot_reserve(struct snapshot *snapshot, const struct plan_layout *layout, unsigned rank,
                     struct error *error)
{
    CLEANUP(share_tensors_done) struct share_tensors tensors = {0}, thawed = {0};

    if (!snapshot->share.copy)
        return 0;
    if (share_tensors_of(snapshot->state, layout, rank, NULL, &tensors) ||
        list_thawed(snapshot->state, layout, rank, &thawed))
        return error_set(error, -ENOMEM, "no memory for checkpoints");
    size_t size_bytes = MAX(tensors.size_bytes, thawed.size_bytes);
    unsigned count = MAX(tensors.count, thawed.count);
    if (share_copy_fits(snapshot->share.copy, size_bytes, count))
        return 0;
    checkpoint_writer_release_wait(
        snapshot->share.writer); /* it may still be reading the last share */
    if (share_copy_reserve(snapshot->share.copy, size_bytes, count))
        return error_set(error, -ENOMEM,
                         "checkpoints need %zu MiB of pinned memory on this node for the copy of "
                         "this worker's share, which cannot be had",
                         size_bytes >> 20);
    return 0;
}

void snapshot_give_up_copies(struct snapshot *snapshot, uint64_t step)
{
    if (snapshot->progress.begun.step != step)
        end_replication(snapshot);
}

static int begin_replication(struct snapshot *snapshot, const struct plan *plan,
                             struct error *error)
{
    const struct replication_options options = {
        .plan = plan,
        .left_out = snapshot->begun.left_out,
        .node = snapshot->copies.node,
        .folder = snapshot->folder,
        .io = snapshot->io,
        .step = snapshot->state->applied_step,
        .timeout_ns = snapshot->copies.timeout_ns,
    };

    return snapshot->progress.begun.has_copies
               ? replication_new(&options, &snapshot->copies.replication, error)
               : 0;
}

static int begin(struct snapshot *snapshot, const struct plan *plan, struct error *error)
{
    int status = begin_replication(snapshot, plan, error);

    if (status || boundary_sits_out(&snapshot->begun))
        return status;
    status = begin_share(snapshot, plan);
    return status ? error_set(error, status, "beginning the checkpoint of step %" PRIu64 ": %s",
                              snapshot->begun.step, strerror(-status))
                  : 0;
}

bool snapshot_sits_out(const struct snapshot *snapshot)
{
    return boundary_sits_out(&snapshot->begun);
}

bool snapshot_busy(const struct snapshot *snapshot)
{
    return checkpoint_progress_is_busy(&snapshot->progress);
}

static struct checkpoint_begin begin_of(const struct snapshot *snapshot, const struct plan *plan,
                                        unsigned rank, const bool *left_out)
{
    bool sits_out = left_out && left_out[rank];
    bool has_copies = plan_keeps_copies(plan) && !sits_out;
    int self = copies_find(&plan->checkpoints, snapshot->copies.node);

    return (struct checkpoint_begin){
        .step = snapshot->state->applied_step,
        .generation = plan->generation,
        .rank = rank,
        .sits_out = sits_out,
        .has_copies = has_copies,
        .is_keeper = has_copies && self >= 0 && copies_keeper(plan, (unsigned)self) == rank,
    };
}

int snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                   const bool *left_out, struct error *error)
{
    const struct checkpoint_begin begun = begin_of(snapshot, plan, rank, left_out);
    int status = 0;

    if (!checkpoint_progress_may_begin(&snapshot->progress))
        return -EBUSY;
    if (boundary_describe(&snapshot->begun, snapshot->state, plan, rank) ||
        boundary_leave_out(&snapshot->begun, &plan->layout, left_out))
        status = error_set(error, -ENOMEM, "no memory to begin a checkpoint");
    end_replication(snapshot);
    checkpoint_progress_begin(&snapshot->progress, &begun);
    if (!status)
        status = begin(snapshot, plan, error);
    snapshot->share.staged = false;
    snapshot->share.stall_ns = 0;
    if (status) /* the other ranks have begun theirs: the step fails like a share */
        checkpoint_progress_share_ended(&snapshot->progress, CHECKPOINT_OUTCOME_FAILED);
    return status;
}

static bool is_released(const struct snapshot *snapshot)
{
    return !snapshot->progress.writes || snapshot->share.staged;
}

bool snapshot_release_until(struct snapshot *snapshot, uint64_t deadline_ns)
{
    struct snapshot_share *share = &snapshot->share;
    uint64_t began_ns = clock_monotonic_ns();

    if (is_released(snapshot))
        return true;
    if (share->copy) /* at the speed of the device's bus */
        share_copy_wait(share->copy);
    share->staged = share->copy || checkpoint_writer_release_until(share->writer, deadline_ns);
    share->stall_ns += clock_monotonic_ns() - began_ns;
    return share->staged;
}

void snapshot_release(struct snapshot *snapshot)
{
    while (!snapshot_release_until(snapshot, clock_monotonic_ns() + NS_PER_SECOND))
        ;
}

void snapshot_give_up(struct snapshot *snapshot)
{
    if (!is_released(snapshot) && !snapshot->share.copy)
        checkpoint_writer_give_up(snapshot->share.writer);
}

static int write_part(const struct snapshot *snapshot, const struct manifest *part,
                      struct error *error)
{
    char directory[JOB_PATH_SIZE];

    checkpoint_part_path(snapshot->folder, snapshot->begun.step, snapshot->begun.generation,
                         directory);
    return part_file_write(directory, snapshot->begun.rank, part, error);
}

/* Return true for errors of this node's disk, which other writers do not have, and false for errors
 * of other nodes or of memory. */
static bool is_of_the_disk(int code)
{
    static const int codes[] = {-ENOSPC, -EDQUOT, -EROFS, -EIO, -EACCES, -EPERM, -ESTALE, -ENODEV};

    for (size_t i = 0; i < ARRAY_COUNT(codes); i++)
        if (codes[i] == code)
            return true;
    return false;
}

static enum checkpoint_outcome outcome_of(int status)
{
    return !status                  ? CHECKPOINT_OUTCOME_DONE
           : is_of_the_disk(status) ? CHECKPOINT_OUTCOME_UNABLE
                                    : CHECKPOINT_OUTCOME_FAILED;
}

/* End this node's part in a checkpoint with copies, if it is done. */
static int poll_keeper(struct snapshot *snapshot, struct error *error)
{
    if (!snapshot->copies.keeper || !copy_keeper_done(snapshot->copies.keeper))
        return 0;
    int status = copy_keeper_finish(snapshot->copies.keeper, error);
    snapshot->copies.keeper = NULL;
    checkpoint_progress_copies_ended(&snapshot->progress, outcome_of(status));
    return status;
}

/* When the copy is complete, give the share to the writer; the next share reuses the copy. */
static int hand_over_copy(struct snapshot *snapshot, bool wait, struct error *error)
{
    int status;

    if (!wait && !share_copy_passed(snapshot->share.copy))
        return 0;
    share_copy_wait(snapshot->share.copy);
    status = checkpoint_writer_begin(snapshot->share.writer, snapshot->share.copying);
    forget_copying(&snapshot->share);
    if (!status)
        return 0;
    checkpoint_progress_share_ended(&snapshot->progress, CHECKPOINT_OUTCOME_FAILED);
    return error_set(error, status, "beginning the checkpoint of step %" PRIu64 ": %s",
                     snapshot->begun.step, strerror(-status));
}

static int poll_share(struct snapshot *snapshot, uint64_t deadline_ns, struct error *error)
{
    struct manifest part = {0};
    int status = snapshot->share.copying ? hand_over_copy(snapshot, deadline_ns != 0, error) : 0;

    if (status || snapshot->share.copying || !snapshot->progress.writes)
        return status;
    status = deadline_ns ? checkpoint_writer_wait(snapshot->share.writer, deadline_ns, &part, error)
                         : checkpoint_writer_poll(snapshot->share.writer, &part, error);
    if (status == 0 || status == -ETIMEDOUT)
        return 0;
    snapshot_release(snapshot);
    if (status == 1) /* otherwise the share is of an earlier generation */
        status = snapshot->progress.begun.step ? write_part(snapshot, &part, error) : 0;
    manifest_done(&part);
    return checkpoint_progress_share_ended(&snapshot->progress, outcome_of(status)) ? status : 0;
}

int snapshot_poll(struct snapshot *snapshot, uint64_t deadline_ns, struct error *error)
{
    int status = poll_keeper(snapshot, error);

    return status ? status : poll_share(snapshot, deadline_ns, error);
}

uint64_t snapshot_durable_step(const struct snapshot *snapshot)
{
    return snapshot->progress.durable;
}

bool snapshot_is_committing(const struct snapshot *snapshot)
{
    return snapshot->progress.commits;
}

bool snapshot_has_committed(const struct snapshot *snapshot, uint64_t step, uint64_t generation)
{
    return snapshot->progress.committed == step &&
           snapshot->progress.committed_generation == generation;
}

bool snapshot_settled(const struct snapshot *snapshot)
{
    return checkpoint_progress_is_settled(&snapshot->progress);
}

uint64_t snapshot_failed_step(const struct snapshot *snapshot)
{
    return snapshot->progress.failed;
}

bool snapshot_unable(const struct snapshot *snapshot)
{
    return checkpoint_progress_is_unable(&snapshot->progress);
}

bool snapshot_abandon(struct snapshot *snapshot, uint64_t failed_step)
{
    struct error error = {0};

    if (!checkpoint_progress_abandon(&snapshot->progress, failed_step))
        return false;
    end_replication(snapshot);
    if (checkpoint_abandon(snapshot->folder, failed_step, snapshot->begun.generation, &error))
        log_warning("the checkpoint of step %" PRIu64 " is given up, but not removed: %s",
                    failed_step, error.text);
    return true;
}

void snapshot_forget(struct snapshot *snapshot)
{
    end_replication(snapshot);
    checkpoint_progress_forget(&snapshot->progress);
    boundary_forget(&snapshot->begun);
}

void snapshot_forget_abandoned(struct snapshot *snapshot)
{
    if (checkpoint_progress_is_abandoned(&snapshot->progress))
        snapshot_forget(snapshot);
}

static bool start_commit(struct snapshot *snapshot)
{
    const struct checkpoint_commit_options options = {
        .io = snapshot->io,
        .folder = snapshot->folder,
        .metrics_path = snapshot->metrics_path,
        .restored = snapshot->restored,
        .spec = snapshot->state->spec,
        .step = snapshot->begun.step,
        .generation = snapshot->begun.generation,
        .world = snapshot->begun.world,
        .tensor_count = snapshot->begun.tensor_count,
        .frozen_layers = snapshot->begun.frozen_layers,
        .left_out = snapshot->begun.left_out,
        .state = snapshot->begun.state,
        .config = snapshot->begun.config,
        .began_ns = snapshot->begun.began_ns,
        .stall_ns = snapshot->share.stall_ns,
        .replication = snapshot->copies.replication,
    };

    snapshot->outcome.commit = checkpoint_commit_start(&options);
    return snapshot->outcome.commit;
}

static bool start_keeper(struct snapshot *snapshot)
{
    snapshot->copies.keeper = copy_keeper_start(snapshot->copies.replication);
    return snapshot->copies.keeper;
}

void snapshot_commit(struct snapshot *snapshot, uint64_t durable_step)
{
    enum checkpoint_work work = checkpoint_progress_start(&snapshot->progress, durable_step);

    if (work == CHECKPOINT_WORK_NONE ||
        (work == CHECKPOINT_WORK_COMMIT ? start_commit(snapshot) : start_keeper(snapshot)))
        return;
    log_error("the checkpoint of step %" PRIu64 " cannot be committed: no memory or no thread",
              durable_step);
    checkpoint_progress_not_started(&snapshot->progress, work);
}

void snapshot_all_told(struct snapshot *snapshot, uint64_t durable_step)
{
    struct checkpoint_commit *commit = snapshot->outcome.commit;

    if (commit && checkpoint_commit_step(commit) == durable_step)
        checkpoint_commit_keepers_told(commit);
}

int snapshot_take_result(struct snapshot *snapshot, struct control_checkpoint *ret_checkpoint,
                         struct error *error)
{
    int status = 0;

    if (snapshot->outcome.commit && checkpoint_commit_done(snapshot->outcome.commit))
        status = end_commit(snapshot, error);
    if (status)
        return status;
    if (!snapshot->outcome.unreported)
        return 0;
    *ret_checkpoint = *snapshot->outcome.unreported;
    free(snapshot->outcome.unreported);
    snapshot->outcome.unreported = NULL;
    return 1;
}

const char *snapshot_warning(const struct snapshot *snapshot)
{
    return snapshot->outcome.warning;
}

void snapshot_sweep(struct snapshot *snapshot, uint64_t generation)
{
    if (job_keeps_copies(snapshot->state->spec) || !generation ||
        (snapshot->sweep && !retention_done(snapshot->sweep)))
        return;
    retention_free(snapshot->sweep);
    snapshot->sweep = retention_start_parts(snapshot->folder, generation);
}

void snapshot_retain(struct snapshot *snapshot, const struct control_checkpoint *recorded)
{
    if (job_keeps_copies(snapshot->state->spec))
        return; /* every node's firnd removes them in its own folder */
    if (!recorded->kept_from || (snapshot->retention && !retention_done(snapshot->retention)))
        return;
    retention_free(snapshot->retention);
    snapshot->retention = retention_start(snapshot->folder, recorded);
}
