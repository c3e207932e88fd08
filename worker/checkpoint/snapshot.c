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
#include "checkpoint/write/io_tuning.h"
#include "checkpoint/write/retain.h"
#include "checkpoint/write/writable.h"
#include "checkpoint/write/writer.h"
#include "elastic/job/huggingface.h"
#include "elastic/job/job_spec.h"
#include "elastic/planner/process_memory.h"
#include "worker/checkpoint/checkpoint_commit.h"
#include "worker/checkpoint/copy_keeper.h"
#include "worker/checkpoint/part_file.h"
#include "worker/checkpoint/retention.h"
#include "worker/checkpoint/share_copy.h"
#include "worker/checkpoint/share_tensors.h"
#include "worker/state/canonical.h"

#define SMALL_BLOCK_BYTES                                                                          \
    (PROCESS_SMALL_STAGING_BYTES / 16) /* as many blocks as the large arena has */

_Static_assert(PROCESS_SMALL_STAGING_BYTES >= CHECKPOINT_ARENA_MIN, "plans count it as staging");

/* Return the bytes of all parameters, and of the moments of the trained ones. */
static uint64_t state_bytes(const struct state *state)
{
    uint64_t elements = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        elements += 3 * (uint64_t)state->units[unit].layout.count;
    return elements * sizeof(float);
}

/* True if the state fits into the least arena: more pages would be touched for nothing. */
static bool is_small(const struct state *state)
{
    return state_bytes(state) <= PROCESS_SMALL_STAGING_BYTES;
}

/* Skip tuning for a small model: its writes end before a measurement of the disk would. */
static struct io_tuning choose_tuning(const struct state *state, const struct io *io,
                                      const char *folder)
{
    struct io_tuning tuning =
        state_bytes(state) < IO_TUNING_FROM_BYTES ? io_tuning_usual() : io_tune(io, folder);

    if (is_small(state))
        tuning.block_bytes = SMALL_BLOCK_BYTES;
    return tuning;
}

struct snapshot {
    const struct state *state; /* borrowed */
    const struct io *io;
    struct checkpoint_writer *writer;
    char folder[JOB_PATH_SIZE];
    struct checkpoint_home home;      /* of `folder`; only for the writer once it has started */
    char metrics_path[JOB_PATH_SIZE]; /* rank 0: file of this node; else "" */
    char restored[JOB_PATH_SIZE];     /* the checkpoint that this worker restored, or "" */
    bool writing;                     /* the writer has a share of `begun_step` */
    bool staged;                      /* the share's memory is released */
    struct share_copy *copy;          /* NULL: the writer reads the state in place */
    struct checkpoint_share *copying; /* begun, but not with the writer yet */
    struct share_tensors copying_tensors;
    uint64_t begun_step, begun_generation;
    unsigned rank, world;
    json_t *begun_state, *begun_config; /* for the manifest, as of the boundary */
    unsigned begun_tensor_count;
    bool *left_out;                /* (world,): ranks that write nothing of begun_step */
    char left_out_node[NAME_SIZE]; /* node of one of them; "": none */
    uint64_t unable_step;          /* failed because this node could not write its part */
    uint64_t durable_step, failed_step, committed_step, abandoned_step;
    uint64_t committed_generation; /* another one's commit of the same step was not recorded */
    uint64_t began_ns, stall_ns;
    struct checkpoint_commit *commit;
    struct control_checkpoint *unsaid; /* a commit not reported in its own generation */
    char warning[CONTROL_TEXT_SIZE];   /* of the last commit */
    /* With copies: */
    char node[NAME_SIZE];
    uint64_t timeout_ns, kept_step;
    struct replication *spread;  /* of begun_step; NULL: one folder for all nodes */
    struct copy_keeper *keeper;  /* this node's part in begun_step, unless this is rank 0 */
    struct retention *retention; /* the last one; NULL before the first */
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
    snprintf(snapshot->node, sizeof(snapshot->node), "%s", options->node);
    snapshot->timeout_ns = options->timeout_ns;
    const struct io_tuning tuning = choose_tuning(state, snapshot->io, options->folder);
    const struct checkpoint_writer_options writing = {
        .io = snapshot->io,
        .arena_bytes = is_small(state) ? PROCESS_SMALL_STAGING_BYTES : PROCESS_STAGING_BYTES,
        .depth = tuning.depth,
        .block_bytes = tuning.block_bytes};
    if (tuning.bytes_per_second > 0)
        log_info("this disk takes %.2f GB/s in writes of %zu KiB, %u in flight",
                 tuning.bytes_per_second / 1e9, tuning.block_bytes >> 10, tuning.depth);
    if (!state->kernel->host_memory &&
        share_copy_new(state->kernel, state->device, &snapshot->copy)) {
        free(snapshot);
        return error_set(error, -ENOMEM, "no memory for checkpoints");
    }
    status = checkpoint_writer_start(&writing, &snapshot->writer, error);
    if (status) {
        share_copy_free(snapshot->copy);
        free(snapshot);
        return status;
    }
    *ret_snapshot = snapshot;
    return 0;
}

int snapshot_try(const struct snapshot *snapshot, struct error *error)
{
    bool shared = snapshot->state->spec->checkpoint.copies < 2; /* else a node writes only a part */

    return checkpoint_writable(snapshot->folder, shared ? state_bytes(snapshot->state) : 0, error);
}

static void forget_copying(struct snapshot *snapshot)
{
    free(snapshot->copying);
    snapshot->copying = NULL;
    share_tensors_done(&snapshot->copying_tensors);
}

static void forget_unsaid(struct snapshot *snapshot)
{
    if (snapshot->unsaid)
        control_checkpoint_done(snapshot->unsaid);
    free(snapshot->unsaid);
    snapshot->unsaid = NULL;
}

static void forget_begun(struct snapshot *snapshot)
{
    json_decref(snapshot->begun_state);
    json_decref(snapshot->begun_config);
    snapshot->begun_state = snapshot->begun_config = NULL;
}

static void warn_of_left_out(struct snapshot *snapshot)
{
    if (!snapshot->warning[0] && snapshot->left_out_node[0])
        snprintf(snapshot->warning, sizeof(snapshot->warning),
                 "node %s cannot write its part of checkpoints (firnctl job events says why): "
                 "others write it, and the node is tried again now and then",
                 snapshot->left_out_node);
}

/* End a commit; a successful one is kept for the next report. */
static int end_commit(struct snapshot *snapshot, struct error *error)
{
    uint64_t step = checkpoint_commit_step(snapshot->commit);
    uint64_t generation = checkpoint_commit_generation(snapshot->commit);
    struct control_checkpoint *result = calloc(1, sizeof(*result)), lost;
    int status = checkpoint_commit_finish(snapshot->commit, result ? result : &lost,
                                          snapshot->warning, error);

    snapshot->commit = NULL;
    if (!status && !result) {
        control_checkpoint_done(&lost);
        status = error_set(error, -ENOMEM, "no memory to tell of a checkpoint");
    }
    if (!status) {
        forget_unsaid(snapshot);
        snapshot->unsaid = result;
        snapshot->committed_step = step;
        snapshot->committed_generation = generation;
        warn_of_left_out(snapshot);
        return 0;
    }
    free(result);
    if (step == snapshot->begun_step)
        snapshot->failed_step = step;
    return status;
}

/* Abandon copies in flight: the next generation has another key and other nodes. */
static void end_spread(struct snapshot *snapshot)
{
    struct error error = {0};

    if (!snapshot->spread)
        return;
    atomic_store(&snapshot->spread->stop, true);
    if (snapshot->commit && end_commit(snapshot, &error) && error.code != -ECANCELED)
        log_warning("%s", error.text);
    if (snapshot->keeper && copy_keeper_finish(snapshot->keeper, &error) &&
        error.code != -ECANCELED)
        log_warning("%s", error.text);
    snapshot->keeper = NULL;
    replication_free(snapshot->spread);
    snapshot->spread = NULL;
}

void snapshot_free(struct snapshot *snapshot)
{
    struct error error = {0};

    if (!snapshot)
        return;
    end_spread(snapshot);
    if (snapshot->commit && end_commit(snapshot, &error))
        log_warning("%s", error.text);
    forget_unsaid(snapshot);
    retention_free(snapshot->retention);
    checkpoint_writer_stop(snapshot->writer);
    forget_copying(snapshot);
    share_copy_free(snapshot->copy);
    forget_begun(snapshot);
    free(snapshot->left_out);
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
    snapshot_release(snapshot);
    if (snapshot->copying) {
        forget_copying(snapshot);
        snapshot->writing = false;
    }
    end_spread(snapshot);
    snapshot->begun_step = snapshot->durable_step = snapshot->failed_step = 0;
    snapshot->kept_step = snapshot->unable_step = 0;
    forget_begun(snapshot);
}

/* Begin the copy to the host; the writer gets the share when the copy is complete. */
static int begin_copying(struct snapshot *snapshot, const struct checkpoint_share *share,
                         struct share_tensors *tensors)
{
    int status = share_copy_reserve(snapshot->copy, tensors->size_bytes, tensors->count);

    if (status)
        return status;
    snapshot->copying = malloc(sizeof(*snapshot->copying));
    if (!snapshot->copying)
        return -ENOMEM;
    share_copy_begin(snapshot->copy);
    for (unsigned i = 0; i < tensors->count; i++) {
        struct checkpoint_tensor *tensor = &tensors->list[i];
        tensor->data = share_copy_add(snapshot->copy, tensor->data, tensor->count);
        assert(tensor->data);
    }
    share_copy_end(snapshot->copy);
    *snapshot->copying = *share;
    snapshot->copying_tensors = *tensors; /* with ownership of the list */
    *tensors = (struct share_tensors){0};
    return 0;
}

static int begin_share(struct snapshot *snapshot, const struct plan *plan)
{
    CLEANUP(share_tensors_done) struct share_tensors tensors = {0};
    struct checkpoint_share share = {
        .step = snapshot->begun_step,
        .generation = snapshot->begun_generation,
        .rank = snapshot->rank,
        .world = snapshot->world,
    };
    int status = share_tensors_of(snapshot->state, &plan->layout, snapshot->rank,
                                  snapshot->left_out, &tensors);

    if (status)
        return status;
    snprintf(share.job, sizeof(share.job), "%s", plan->job);
    snprintf(share.folder, sizeof(share.folder), "%s", snapshot->folder);
    share.home = &snapshot->home;
    share.tensors = tensors.list;
    share.tensor_count = tensors.count;
    return snapshot->copy ? begin_copying(snapshot, &share, &tensors)
                          : checkpoint_writer_begin(snapshot->writer, &share);
}

int snapshot_reserve(struct snapshot *snapshot, const struct plan_layout *layout, unsigned rank,
                     struct error *error)
{
    CLEANUP(share_tensors_done) struct share_tensors tensors = {0};

    if (!snapshot->copy)
        return 0;
    if (share_tensors_of(snapshot->state, layout, rank, NULL, &tensors))
        return error_set(error, -ENOMEM, "no memory for checkpoints");
    if (share_copy_fits(snapshot->copy, tensors.size_bytes, tensors.count))
        return 0;
    checkpoint_writer_release_wait(snapshot->writer); /* it may still be reading the last share */
    if (share_copy_reserve(snapshot->copy, tensors.size_bytes, tensors.count))
        return error_set(error, -ENOMEM,
                         "checkpoints need %zu MiB of pinned memory on this node for the copy of "
                         "this worker's share, which cannot be had",
                         tensors.size_bytes >> 20);
    return 0;
}

void snapshot_give_up_copies(struct snapshot *snapshot, uint64_t step)
{
    if (snapshot->begun_step != step)
        end_spread(snapshot);
}

static int begin_spread(struct snapshot *snapshot, const struct plan *plan, struct error *error)
{
    const struct replication_options options = {
        .plan = plan,
        .left_out = snapshot->left_out,
        .node = snapshot->node,
        .folder = snapshot->folder,
        .io = snapshot->io,
        .step = snapshot->state->applied_step,
        .timeout_ns = snapshot->timeout_ns,
    };

    end_spread(snapshot);
    return plan->checkpoints.copies && !snapshot_sits_out(snapshot)
               ? replication_new(&options, &snapshot->spread, error)
               : 0;
}

static int note_left_out(struct snapshot *snapshot, const struct plan_layout *layout,
                         const bool *left_out)
{
    bool *copy = calloc(layout->worker_count, sizeof(*copy));

    free(snapshot->left_out);
    snapshot->left_out = copy;
    snapshot->left_out_node[0] = '\0';
    for (unsigned rank = 0; copy && rank < layout->worker_count; rank++) {
        copy[rank] = left_out && left_out[rank];
        if (copy[rank])
            memcpy(snapshot->left_out_node, layout->workers[rank].node, NAME_SIZE);
    }
    return copy ? 0 : -ENOMEM;
}

/* Record the manifest's data on the boundary, apart from its tensors. */
static int describe_boundary(struct snapshot *snapshot, const struct plan *plan, unsigned rank)
{
    const struct state *state = snapshot->state;

    forget_begun(snapshot);
    snapshot->rank = rank;
    snapshot->world = plan->layout.worker_count;
    snapshot->begun_step = state->applied_step;
    snapshot->begun_generation = plan->generation;
    snapshot->begun_tensor_count = canonical_count(state);
    snapshot->began_ns = clock_monotonic_ns();
    snapshot->begun_state = state_encode(state);
    snapshot->begun_config = huggingface_config(&state->spec->model, state_tied(state));
    return snapshot->begun_state && snapshot->begun_config ? 0 : -ENOMEM;
}

static int begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                 const bool *left_out, struct error *error)
{
    if (describe_boundary(snapshot, plan, rank) || note_left_out(snapshot, &plan->layout, left_out))
        return error_set(error, -ENOMEM, "no memory to begin a checkpoint");
    int status = begin_spread(snapshot, plan, error);
    if (status)
        return status;
    if (snapshot_sits_out(snapshot)) {
        snapshot->durable_step = snapshot->begun_step;
        return 0;
    }
    status = begin_share(snapshot, plan);
    return status ? error_set(error, status, "beginning the checkpoint of step %" PRIu64 ": %s",
                              snapshot->begun_step, strerror(-status))
                  : 0;
}

static bool is_committed(const struct snapshot *snapshot)
{
    return snapshot->begun_step == snapshot->committed_step &&
           snapshot->begun_generation == snapshot->committed_generation;
}

bool snapshot_sits_out(const struct snapshot *snapshot)
{
    return snapshot->left_out && snapshot->left_out[snapshot->rank];
}

/* The files of an abandoned step are removed: do not report that they are missing. */
static bool is_abandoned(const struct snapshot *snapshot)
{
    return snapshot->begun_step && snapshot->begun_step == snapshot->abandoned_step;
}

/* True while a step was begun, and rank 0 does not know its outcome yet. */
static bool is_open(const struct snapshot *snapshot)
{
    return snapshot->begun_step && !is_committed(snapshot) && !is_abandoned(snapshot) &&
           snapshot->begun_step != snapshot->failed_step;
}

bool snapshot_busy(const struct snapshot *snapshot)
{
    return snapshot->writing || snapshot->keeper ||
           (snapshot->spread && (snapshot->commit || (snapshot->rank == 0 && is_open(snapshot))));
}

int snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                   const bool *left_out, struct error *error)
{
    if (snapshot->writing || snapshot->keeper || (snapshot->spread && snapshot->commit))
        return -EBUSY;
    int status = begin(snapshot, plan, rank, left_out, error);
    snapshot->writing = !status && !snapshot_sits_out(snapshot);
    snapshot->staged = false;
    if (status) /* the other ranks have begun theirs: the step fails like a share */
        snapshot->failed_step = snapshot->begun_step;
    return status;
}

void snapshot_release(struct snapshot *snapshot)
{
    uint64_t began_ns = clock_monotonic_ns();

    if (!snapshot->writing || snapshot->staged)
        return;
    if (snapshot->copy)
        share_copy_wait(snapshot->copy);
    else
        checkpoint_writer_release_wait(snapshot->writer);
    snapshot->stall_ns = clock_monotonic_ns() - began_ns;
    snapshot->staged = true;
}

static int write_part(const struct snapshot *snapshot, const struct manifest *part,
                      struct error *error)
{
    char directory[JOB_PATH_SIZE];

    checkpoint_part_path(snapshot->folder, snapshot->begun_step, snapshot->begun_generation,
                         directory);
    return part_file_write(directory, snapshot->rank, part, error);
}

/* True for errors of this node's disk, which other writers do not have; not for errors of other
 * nodes or of memory. */
static bool is_of_the_disk(int code)
{
    static const int codes[] = {-ENOSPC, -EDQUOT, -EROFS, -EIO, -EACCES, -EPERM, -ESTALE, -ENODEV};

    for (size_t i = 0; i < ARRAY_COUNT(codes); i++)
        if (codes[i] == code)
            return true;
    return false;
}

static void note_failure(struct snapshot *snapshot, int code)
{
    snapshot->failed_step = snapshot->begun_step;
    if (is_of_the_disk(code) && !is_abandoned(snapshot))
        snapshot->unable_step = snapshot->begun_step;
}

/* End this node's part in a checkpoint with copies, if it is done. */
static int poll_keeper(struct snapshot *snapshot, struct error *error)
{
    if (!snapshot->keeper || !copy_keeper_done(snapshot->keeper))
        return 0;
    int status = copy_keeper_finish(snapshot->keeper, error);
    snapshot->keeper = NULL;
    if (status)
        note_failure(snapshot, status);
    return status;
}

/* When the copy is complete, give the share to the writer; the next share reuses the copy. */
static int hand_over_copy(struct snapshot *snapshot, bool wait, struct error *error)
{
    int status;

    if (!wait && !share_copy_passed(snapshot->copy))
        return 0;
    share_copy_wait(snapshot->copy);
    status = checkpoint_writer_begin(snapshot->writer, snapshot->copying);
    forget_copying(snapshot);
    if (!status)
        return 0;
    snapshot->writing = false;
    snapshot->failed_step = snapshot->begun_step;
    return error_set(error, status, "beginning the checkpoint of step %" PRIu64 ": %s",
                     snapshot->begun_step, strerror(-status));
}

static int poll_share(struct snapshot *snapshot, uint64_t deadline_ns, struct error *error)
{
    struct manifest part = {0};
    int status = snapshot->copying ? hand_over_copy(snapshot, deadline_ns != 0, error) : 0;

    if (status || snapshot->copying || !snapshot->writing)
        return status;
    status = deadline_ns ? checkpoint_writer_wait(snapshot->writer, deadline_ns, &part, error)
                         : checkpoint_writer_poll(snapshot->writer, &part, error);
    if (status == 0 || status == -ETIMEDOUT)
        return 0;
    snapshot_release(snapshot);
    snapshot->writing = false;
    if (status == 1 && snapshot->begun_step) {
        status = write_part(snapshot, &part, error);
        if (!status)
            snapshot->durable_step = snapshot->begun_step;
    }
    manifest_done(&part);
    if (status < 0)
        note_failure(snapshot, status);
    return status < 0 && !is_abandoned(snapshot) ? status : 0;
}

int snapshot_poll(struct snapshot *snapshot, uint64_t deadline_ns, struct error *error)
{
    int status = poll_keeper(snapshot, error);

    return status ? status : poll_share(snapshot, deadline_ns, error);
}

uint64_t snapshot_durable_step(const struct snapshot *snapshot)
{
    return snapshot->durable_step;
}

bool snapshot_settled(const struct snapshot *snapshot)
{
    return !snapshot->writing && !snapshot->keeper && !snapshot->commit;
}

uint64_t snapshot_failed_step(const struct snapshot *snapshot)
{
    return snapshot->failed_step;
}

bool snapshot_unable(const struct snapshot *snapshot)
{
    return snapshot->unable_step && snapshot->unable_step == snapshot->failed_step;
}

bool snapshot_abandon(struct snapshot *snapshot, uint64_t failed_step)
{
    struct error error = {0};

    if (!failed_step || failed_step != snapshot->begun_step ||
        failed_step == snapshot->abandoned_step)
        return false;
    snapshot->abandoned_step = failed_step;
    if (snapshot->rank != 0 && !snapshot->spread)
        return false; /* there is one folder, and rank 0 cleans it up */
    end_spread(snapshot);
    if (checkpoint_abandon(snapshot->folder, failed_step, snapshot->begun_generation, &error))
        log_warning("the checkpoint of step %" PRIu64 " is given up, but not removed: %s",
                    failed_step, error.text);
    return true;
}

void snapshot_forget(struct snapshot *snapshot)
{
    end_spread(snapshot);
    snapshot->begun_step = snapshot->durable_step = 0;
    snapshot->failed_step = snapshot->abandoned_step = snapshot->kept_step = 0;
    snapshot->unable_step = 0;
    forget_begun(snapshot);
}

void snapshot_forget_abandoned(struct snapshot *snapshot)
{
    if (is_abandoned(snapshot))
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
        .step = snapshot->begun_step,
        .generation = snapshot->begun_generation,
        .world = snapshot->world,
        .tensor_count = snapshot->begun_tensor_count,
        .left_out = snapshot->left_out,
        .state = snapshot->begun_state,
        .config = snapshot->begun_config,
        .began_ns = snapshot->began_ns,
        .stall_ns = snapshot->stall_ns,
        .spread = snapshot->spread,
    };

    snapshot->commit = checkpoint_commit_start(&options);
    return snapshot->commit;
}

/* Not on rank 0, whose commit does the same for its node. */
static bool start_keeper(struct snapshot *snapshot)
{
    const struct replication *spread = snapshot->spread;

    if (!spread || copies_keeper(spread->plan, spread->self) != snapshot->rank ||
        snapshot->kept_step == snapshot->begun_step)
        return true;
    snapshot->kept_step = snapshot->begun_step;
    snapshot->keeper = copy_keeper_start(snapshot->spread);
    return snapshot->keeper;
}

void snapshot_commit(struct snapshot *snapshot, uint64_t durable_step)
{
    if (!durable_step || durable_step != snapshot->begun_step ||
        durable_step == snapshot->failed_step || snapshot->commit || is_committed(snapshot))
        return;
    if (snapshot->rank == 0 ? start_commit(snapshot) : start_keeper(snapshot))
        return;
    log_error("the checkpoint of step %" PRIu64 " cannot be committed: no memory or no thread",
              durable_step);
    if (snapshot->spread) /* other nodes wait for this one */
        snapshot->failed_step = durable_step;
}

int snapshot_take_result(struct snapshot *snapshot, struct control_checkpoint *ret_checkpoint,
                         struct error *error)
{
    int status = 0;

    if (snapshot->commit && checkpoint_commit_done(snapshot->commit))
        status = end_commit(snapshot, error);
    if (status)
        return status;
    if (!snapshot->unsaid)
        return 0;
    *ret_checkpoint = *snapshot->unsaid;
    free(snapshot->unsaid);
    snapshot->unsaid = NULL;
    return 1;
}

const char *snapshot_warning(const struct snapshot *snapshot)
{
    return snapshot->warning;
}

void snapshot_retain(struct snapshot *snapshot, const struct control_checkpoint *recorded)
{
    if (snapshot->state->spec->checkpoint.copies > 1)
        return; /* every node's firnd does it for its own folder */
    if (!recorded->kept_from || (snapshot->retention && !retention_done(snapshot->retention)))
        return;
    retention_free(snapshot->retention);
    snapshot->retention = retention_start(snapshot->folder, recorded);
}
