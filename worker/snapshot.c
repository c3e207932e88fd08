#include "worker/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/reader.h"
#include "checkpoint/tune.h"
#include "checkpoint/writer.h"
#include "worker/canonical.h"
#include "worker/history.h"
#include "worker/retention.h"

#define ARENA_BYTES   ((size_t)64 << 20)
#define PART_FILE_MAX ((size_t)64 << 20)
#define END_OF_TEXT   50256

/* Parameters, and the moments of those that are trained. */
static uint64_t state_bytes(const struct state *state)
{
    uint64_t elements = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++)
        elements += 3 * (uint64_t)state->units[unit].layout.count;
    return elements * sizeof(float);
}

/* A small model is on disk before any disk has got going. */
static struct io_tuning choose_tuning(const struct state *state, const struct io *io,
                                      const char *folder)
{
    return state_bytes(state) < TUNE_FROM_BYTES ? io_tuning_usual() : io_tune(io, folder);
}

/* One commit, run by rank 0 in a thread of its own. Owns everything it points to. */
struct commit {
    pthread_t thread;
    bool done; /* written by the thread, with release */
    const struct io *io;
    char folder[JOB_PATH_SIZE];
    char metrics_path[JOB_PATH_SIZE]; /* "": none */
    char job[NAME_SIZE];
    uint64_t step, generation;
    unsigned world, tensor_count;
    json_t *spec, *state, *config;
    uint64_t began_ns, stall_ns;
    struct control_checkpoint result;
    int status;
    struct error error;
};

struct snapshot {
    const struct state *state; /* borrowed */
    const struct io *io;
    struct checkpoint_writer *writer;
    char folder[JOB_PATH_SIZE];
    char metrics_path[JOB_PATH_SIZE]; /* rank 0: of this node; else "" */
    bool writing;                     /* a share of `begun_step` is with the writer */
    bool staged;                      /* its memory has been let go */
    uint64_t begun_step, begun_generation;
    unsigned rank, world;
    json_t *begun_state, *begun_config; /* of the manifest, as they were at the boundary */
    unsigned begun_tensor_count;
    uint64_t durable_step, failed_step, committed_step, abandoned_step;
    uint64_t committed_generation; /* another one's commit of the same step was not recorded */
    uint64_t began_ns, stall_ns;
    struct commit *commit;
    struct retention *retention; /* the last one; NULL before the first */
};

int snapshot_new(const struct state *state, const char *folder, struct snapshot **ret_snapshot,
                 struct error *error)
{
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    const char *why;
    int status;

    if (!snapshot)
        return error_set(error, -ENOMEM, "no memory for checkpoints");
    snapshot->state = state;
    snapshot->io = io_probe(&why);
    log_info("checkpoints are written with %s: %s", snapshot->io->name, why);
    snprintf(snapshot->folder, sizeof(snapshot->folder), "%s", folder);
    const struct io_tuning tuning = choose_tuning(state, snapshot->io, folder);
    const struct checkpoint_writer_options options = {.io = snapshot->io,
                                                      .arena_bytes = ARENA_BYTES,
                                                      .depth = tuning.depth,
                                                      .block_bytes = tuning.block_bytes};
    if (tuning.bytes_per_second > 0)
        log_info("this disk takes %.2f GB/s in writes of %zu KiB, %u in flight",
                 tuning.bytes_per_second / 1e9, tuning.block_bytes >> 10, tuning.depth);
    status = checkpoint_writer_start(&options, &snapshot->writer, error);
    if (status)
        free(snapshot);
    else
        *ret_snapshot = snapshot;
    return status;
}

static void forget_begun(struct snapshot *snapshot)
{
    json_decref(snapshot->begun_state);
    json_decref(snapshot->begun_config);
    snapshot->begun_state = snapshot->begun_config = NULL;
}

static void commit_free(struct commit *commit)
{
    if (!commit)
        return;
    pthread_join(commit->thread, NULL);
    json_decref(commit->spec);
    json_decref(commit->state);
    json_decref(commit->config);
    free(commit);
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    commit_free(snapshot->commit);
    retention_free(snapshot->retention);
    checkpoint_writer_stop(snapshot->writer);
    forget_begun(snapshot);
    free(snapshot);
}

void snapshot_keep_history(struct snapshot *snapshot, const char *metrics_path)
{
    snprintf(snapshot->metrics_path, sizeof(snapshot->metrics_path), "%s", metrics_path);
}

bool snapshot_due(const struct job_spec *spec, uint64_t step)
{
    return spec->checkpoint.every && step % spec->checkpoint.every == 0 &&
           step != spec->train.steps;
}

void snapshot_reset(struct snapshot *snapshot)
{
    snapshot_release(snapshot);
    snapshot->begun_step = snapshot->durable_step = snapshot->failed_step = 0;
    forget_begun(snapshot);
}

/* Hugging Face's description of the model, so that the folder opens there as it is. */
static json_t *model_config(const struct state *state)
{
    const struct model_spec *model = &state->model;
    /* GPT-2's end of text; a smaller vocabulary has no such token, which must be said. */
    json_t *end = model->vocab > END_OF_TEXT ? json_integer(END_OF_TEXT) : json_null();
    json_t *config = json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:s}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "n_layer", (int)model->layers,
        "n_embd", (int)model->width, "n_head", (int)model->heads, "n_positions",
        (int)model->context, "n_ctx", (int)model->context, "vocab_size", (int)model->vocab,
        "activation_function", "gelu_new", "layer_norm_epsilon", 1e-5, "initializer_range", 0.02,
        "resid_pdrop", 0.0, "embd_pdrop", 0.0, "attn_pdrop", 0.0, "tie_word_embeddings",
        state_tied(state), "torch_dtype", "float32");

    if (json_object_set_new(config, "bos_token_id", json_incref(end)) ||
        json_object_set_new(config, "eos_token_id", end)) {
        json_decref(config);
        return NULL;
    }
    return config;
}

/* Every tensor of the stage goes to the replica that has the least to write so far: the same on all
 * of them. Frozen units go around whole and weigh nothing: they are written once and then linked.
 */
struct sharing {
    struct snapshot *snapshot;
    unsigned replica, replica_count;
    uint64_t *bytes; /* a replica */
    struct checkpoint_tensor *tensors;
    unsigned count, capacity;
};

static unsigned owner_of(struct sharing *sharing, const struct canonical_tensor *at, bool frozen)
{
    unsigned owner = 0;

    if (frozen)
        return at->unit % sharing->replica_count;
    for (unsigned i = 1; i < sharing->replica_count; i++)
        if (sharing->bytes[i] < sharing->bytes[owner])
            owner = i;
    sharing->bytes[owner] += at->tensor->count * sizeof(float);
    return owner;
}

static int share_tensor(void *context, const struct canonical_tensor *at)
{
    struct sharing *sharing = context;
    bool frozen = at->unit < state_frozen_units(sharing->snapshot->state);

    if (owner_of(sharing, at, frozen) != sharing->replica)
        return 0;
    assert(sharing->count < sharing->capacity);
    struct checkpoint_tensor *tensor = &sharing->tensors[sharing->count++];
    *tensor = (struct checkpoint_tensor){
        .role = at->role,
        .order = at->order,
        .rank = at->tensor->rank,
        .data = canonical_memory(sharing->snapshot->state, at),
        .count = at->tensor->count,
        .frozen = frozen,
        .unit = at->unit,
    };
    snprintf(tensor->name, sizeof(tensor->name), "%s", at->tensor->name);
    for (unsigned i = 0; i < at->tensor->rank; i++)
        tensor->shape[i] = at->tensor->shape[i];
    return 0;
}

static int begin_share(struct snapshot *snapshot, const struct plan *plan, struct sharing *sharing)
{
    const struct state *state = snapshot->state;
    unsigned stage = snapshot->rank % plan->stage_count, first = plan->stage_first_unit[stage];
    struct checkpoint_share share = {
        .step = state->applied_step,
        .generation = plan->generation,
        .rank = snapshot->rank,
        .world = snapshot->world,
    };

    canonical_visit(state, first, plan->stage_first_unit[stage + 1] - first, share_tensor, sharing);
    snprintf(share.job, sizeof(share.job), "%s", plan->job);
    snprintf(share.folder, sizeof(share.folder), "%s", snapshot->folder);
    share.tensors = sharing->tensors;
    share.tensor_count = sharing->count;
    return checkpoint_writer_begin(snapshot->writer, &share);
}

int snapshot_begin(struct snapshot *snapshot, const struct plan *plan, unsigned rank,
                   struct error *error)
{
    const struct state *state = snapshot->state;
    struct sharing sharing = {
        .snapshot = snapshot,
        .replica = rank / plan->stage_count,
        .replica_count = plan->replica_count,
        .capacity = canonical_count(state),
    };
    AUTO_FREE uint64_t *bytes = calloc(plan->replica_count, sizeof(*bytes));
    AUTO_FREE struct checkpoint_tensor *tensors = calloc(sharing.capacity, sizeof(*tensors));
    int status;

    if (snapshot->writing)
        return -EBUSY;
    forget_begun(snapshot);
    snapshot->rank = rank;
    snapshot->world = plan->worker_count;
    sharing.bytes = bytes;
    sharing.tensors = tensors;
    snapshot->begun_state =
        json_pack("{s:o}", "freeze", freeze_encode(&state->freeze, state->model.layers));
    snapshot->begun_config = model_config(state);
    if (!bytes || !tensors || !snapshot->begun_state || !snapshot->begun_config)
        return error_set(error, -ENOMEM, "no memory to begin a checkpoint");
    status = begin_share(snapshot, plan, &sharing);
    if (status)
        return error_set(error, status, "beginning the checkpoint of step %" PRIu64 ": %s",
                         state->applied_step, strerror(-status));
    snapshot->writing = true;
    snapshot->staged = false;
    snapshot->begun_step = state->applied_step;
    snapshot->begun_generation = plan->generation;
    snapshot->begun_tensor_count = sharing.capacity;
    snapshot->began_ns = clock_monotonic_ns();
    return 0;
}

void snapshot_release(struct snapshot *snapshot)
{
    if (!snapshot->writing || snapshot->staged)
        return;
    snapshot->stall_ns = checkpoint_writer_release_wait(snapshot->writer);
    snapshot->staged = true;
}

static void part_path(const char *folder, uint64_t step, uint64_t generation, unsigned rank,
                      char ret_path[JOB_PATH_SIZE + 64])
{
    char shares[JOB_PATH_SIZE];

    checkpoint_part_path(folder, step, generation, shares);
    snprintf(ret_path, JOB_PATH_SIZE + 64, "%s/part-%05u.json", shares, rank);
}

static int write_part(const struct snapshot *snapshot, const struct manifest *part,
                      struct error *error)
{
    AUTO_JSON json_t *tree = manifest_encode(part);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    char path[JOB_PATH_SIZE + 64];

    if (!text)
        return error_set(error, -ENOMEM, "no memory for a manifest part");
    part_path(snapshot->folder, snapshot->begun_step, snapshot->begun_generation, snapshot->rank,
              path);
    return file_replace(path, text, strlen(text), 0644, error);
}

int snapshot_poll(struct snapshot *snapshot, uint64_t deadline_ns, struct error *error)
{
    struct manifest part = {0};
    int status;

    if (!snapshot->writing)
        return 0;
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
        snapshot->failed_step = snapshot->begun_step;
    return status < 0 ? status : 0;
}

uint64_t snapshot_durable_step(const struct snapshot *snapshot)
{
    return snapshot->durable_step;
}

uint64_t snapshot_failed_step(const struct snapshot *snapshot)
{
    return snapshot->failed_step;
}

static int merge_part(struct commit *commit, unsigned rank, struct manifest *into)
{
    struct manifest part = {0};
    struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    char path[JOB_PATH_SIZE + 64];
    int status;

    part_path(commit->folder, commit->step, commit->generation, rank, path);
    status = file_read(path, PART_FILE_MAX, &text, &commit->error);
    if (!status)
        status = json_parse((const char *)text.data, text.size_bytes, path, &tree, &commit->error);
    if (!status)
        status = manifest_decode(tree, path, &part, &commit->error);
    if (!status)
        status = manifest_merge(into, &part, &commit->error);
    if (!status)
        unlink(path);
    manifest_done(&part);
    bytes_done(&text);
    return status;
}

/* Not worth a checkpoint. */
static void save_history(const struct commit *commit, struct manifest *manifest)
{
    char part[JOB_PATH_SIZE];
    struct error error = {0};

    checkpoint_part_path(commit->folder, commit->step, commit->generation, part);
    if (commit->metrics_path[0] &&
        history_save(commit->metrics_path, commit->step, part, manifest, &error))
        log_warning("the checkpoint of step %" PRIu64 " goes without metrics: %s", commit->step,
                    error.text);
}

static int assemble(struct commit *commit, struct manifest *ret_manifest)
{
    int status = 0;

    snprintf(ret_manifest->job, sizeof(ret_manifest->job), "%s", commit->job);
    ret_manifest->step = commit->step;
    ret_manifest->generation = commit->generation;
    ret_manifest->spec = json_incref(commit->spec);
    ret_manifest->state = json_incref(commit->state);
    for (unsigned rank = 0; !status && rank < commit->world; rank++)
        status = merge_part(commit, rank, ret_manifest);
    if (!status)
        save_history(commit, ret_manifest);
    return status ? status : manifest_seal(ret_manifest, commit->tensor_count, &commit->error);
}

static uint64_t total_bytes(const struct manifest *manifest)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < manifest->file_count; i++)
        sum += manifest->files[i].size_bytes;
    return sum;
}

/* Shares that an equal checkpoint stands for, or that there is no place for. */
static void drop_shares(const struct commit *commit)
{
    struct error error = {0};

    if (checkpoint_abandon(commit->folder, commit->step, commit->generation, &error))
        log_warning("%s", error.text);
}

static int commit_manifest(struct commit *commit, const struct manifest *manifest)
{
    struct control_checkpoint *result = &commit->result;
    int status = checkpoint_find_equal(commit->folder, manifest, result->path,
                                       result->manifest_sha256, &commit->error);

    if (status != CHECKPOINT_ABSENT) {
        drop_shares(commit);
        return MIN(status, 0);
    }
    return checkpoint_commit(commit->io, commit->folder, manifest, commit->config, result->path,
                             result->manifest_sha256, &commit->error);
}

static void *run_commit(void *argument)
{
    struct commit *commit = argument;
    struct control_checkpoint *result = &commit->result;
    struct manifest manifest = {0};

    commit->status = assemble(commit, &manifest);
    if (!commit->status)
        commit->status = commit_manifest(commit, &manifest);
    if (!commit->status) {
        result->generation = commit->generation;
        result->step = commit->step;
        result->size_bytes = total_bytes(&manifest);
        result->stall_seconds = (double)commit->stall_ns / 1e9;
        result->write_seconds = (double)(clock_monotonic_ns() - commit->began_ns) / 1e9;
    }
    manifest_done(&manifest);
    __atomic_store_n(&commit->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static struct commit *commit_new(const struct snapshot *snapshot)
{
    const struct job_spec *spec = snapshot->state->spec;
    struct commit *commit = calloc(1, sizeof(*commit));

    if (!commit)
        return NULL;
    *commit = (struct commit){
        .io = snapshot->io,
        .step = snapshot->begun_step,
        .generation = snapshot->begun_generation,
        .world = snapshot->world,
        .tensor_count = snapshot->begun_tensor_count,
        .spec = job_spec_encode(spec),
        .state = json_incref(snapshot->begun_state),
        .config = json_incref(snapshot->begun_config),
        .began_ns = snapshot->began_ns,
        .stall_ns = snapshot->stall_ns,
    };
    snprintf(commit->folder, sizeof(commit->folder), "%s", snapshot->folder);
    snprintf(commit->metrics_path, sizeof(commit->metrics_path), "%s", snapshot->metrics_path);
    snprintf(commit->job, sizeof(commit->job), "%s", spec->name);
    return commit;
}

bool snapshot_abandon(struct snapshot *snapshot, uint64_t failed_step)
{
    struct error error = {0};

    if (!failed_step || failed_step != snapshot->begun_step ||
        failed_step == snapshot->abandoned_step)
        return false;
    snapshot->abandoned_step = failed_step;
    if (checkpoint_abandon(snapshot->folder, failed_step, snapshot->begun_generation, &error))
        log_warning("the checkpoint of step %" PRIu64 " is given up, but not removed: %s",
                    failed_step, error.text);
    return true;
}

void snapshot_forget(struct snapshot *snapshot)
{
    snapshot->begun_step = snapshot->durable_step = 0;
    snapshot->failed_step = snapshot->abandoned_step = 0;
    forget_begun(snapshot);
}

void snapshot_commit(struct snapshot *snapshot, uint64_t durable_step)
{
    if (!durable_step || durable_step != snapshot->begun_step ||
        durable_step == snapshot->failed_step || snapshot->commit ||
        (durable_step == snapshot->committed_step &&
         snapshot->begun_generation == snapshot->committed_generation))
        return;
    struct commit *commit = commit_new(snapshot);
    if (!commit || pthread_create(&commit->thread, NULL, run_commit, commit)) {
        log_error("the checkpoint of step %" PRIu64 " cannot be committed: no memory or no thread",
                  durable_step);
        free(commit);
        return;
    }
    snapshot->commit = commit;
}

int snapshot_take_result(struct snapshot *snapshot, struct control_checkpoint *ret_checkpoint,
                         struct error *error)
{
    struct commit *commit = snapshot->commit;
    int status;

    if (!commit || !__atomic_load_n(&commit->done, __ATOMIC_ACQUIRE))
        return 0;
    status = commit->status;
    if (status) {
        if (error)
            *error = commit->error;
        if (commit->step == snapshot->begun_step)
            snapshot->failed_step = commit->step;
    } else {
        *ret_checkpoint = commit->result;
        snapshot->committed_step = commit->step;
        snapshot->committed_generation = commit->generation;
    }
    snapshot->commit = NULL;
    commit_free(commit);
    return status ? status : 1;
}

void snapshot_retain(struct snapshot *snapshot, uint64_t kept_from, uint64_t step)
{
    if (!kept_from || (snapshot->retention && !retention_done(snapshot->retention)))
        return;
    retention_free(snapshot->retention);
    snapshot->retention = retention_start(snapshot->folder, kept_from, step);
}
