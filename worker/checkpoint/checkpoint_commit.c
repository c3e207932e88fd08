#include "worker/checkpoint/checkpoint_commit.h"

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
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_before.h"
#include "checkpoint/format/model_files.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/folder_commit.h"
#include "checkpoint/write/folder_compare.h"
#include "checkpoint/write/retain.h"
#include "checkpoint/write/writer.h"
#include "elastic/job/job_spec.h"
#include "worker/checkpoint/part_file.h"
#include "worker/checkpoint/source_files.h"
#include "worker/metrics/history.h"

/* Time limit of the other nodes' keepers: long enough for a slow network. */
#define KEEPERS_NS          (60 * NS_PER_SECOND)
#define KEEPERS_LOOK_NS     NS_PER_SECOND
#define KEEPERS_BYTES_A_SEC ((uint64_t)4 << 20)

/* With copies: the receipts and digests of the other nodes. */
struct commit_copies {
    struct replication_receipt *receipts; /* per copy node that writes; NULL without copies */
    struct hash128 *part_digests;         /* per copy node: of the parts that rank 0 has merged */
    bool keepers_told;                    /* read by the thread, with acquire */
};

struct checkpoint_commit {
    pthread_t thread;
    bool done; /* written by the thread, with release */
    const struct io *io;
    char folder[JOB_PATH_SIZE];
    char metrics_path[JOB_PATH_SIZE]; /* "": none */
    char restored[JOB_PATH_SIZE];
    char job[NAME_SIZE];
    uint64_t step, generation;
    unsigned world, tensor_count, frozen_layers;
    bool *left_out;
    json_t *spec, *state, *config;
    uint64_t began_ns, stall_ns;
    struct replication *replication;
    struct commit_copies copies;
    struct control_checkpoint result;
    char warning[CONTROL_TEXT_SIZE];
    int status;
    struct error error;
};

/* ---- one folder for all nodes ---- */

static int read_part(struct checkpoint_commit *commit, unsigned rank, struct manifest *ret_part)
{
    struct bytes text = {0};
    char directory[1024], name[PART_FILE_NAME_SIZE], path[JOB_PATH_SIZE + PART_FILE_NAME_SIZE];
    int status;

    checkpoint_part_path(commit->folder, commit->step, commit->generation, directory);
    part_file_name(rank, name);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    status = file_read(path, PART_FILE_MAX, &text, &commit->error);
    if (!status)
        status = part_file_decode(&text, path, ret_part, &commit->error);
    if (!status)
        unlink(path);
    bytes_done(&text);
    return status;
}

/* Drop the shares: an equal checkpoint exists, or they cannot be committed. */
static void drop_shares(const struct checkpoint_commit *commit)
{
    struct error error = {0};

    if (checkpoint_abandon(commit->folder, commit->step, commit->generation, &error))
        log_warning("%s", error.text);
}

static int commit_manifest(struct checkpoint_commit *commit, const struct manifest *manifest)
{
    struct control_checkpoint *result = &commit->result;
    int status = folder_compare(commit->folder, manifest, result->path, result->manifest_sha256,
                                &commit->error);

    if (status != FOLDER_COMPARE_ABSENT) {
        drop_shares(commit);
        return MIN(status, 0);
    }
    return folder_commit(commit->io, commit->folder, manifest, commit->config, result->path,
                         result->manifest_sha256, &commit->error);
}

/* ---- copies ---- */

/* List the nodes that have @copy_node's share, its writer first. */
static unsigned places_of(const struct checkpoint_commit *commit, unsigned copy_node,
                          char ret_nodes[MANIFEST_NODES_MAX][NAME_SIZE])
{
    const struct plan *plan = commit->replication->plan;
    unsigned count = 0;

    memcpy(ret_nodes[count++], plan->checkpoints.copy_nodes[copy_node].node, NAME_SIZE);
    for (unsigned i = 0; i < commit->replication->writer_count && count < MANIFEST_NODES_MAX; i++)
        if (commit->copies.receipts[i].has[copy_node])
            memcpy(ret_nodes[count++], plan->checkpoints.copy_nodes[i].node, NAME_SIZE);
    return count;
}

static int name_places(struct checkpoint_commit *commit, struct manifest *manifest,
                       size_t first_file, unsigned rank)
{
    char nodes[MANIFEST_NODES_MAX][NAME_SIZE];
    unsigned count = places_of(commit, replication_copy_node(commit->replication, rank), nodes);
    int status = 0;

    static_assert(MANIFEST_NODES_MAX >= COPIES_MAX, "every copy can be named");
    for (size_t i = first_file; !status && i < manifest->file_count; i++)
        status = manifest_name_nodes(&manifest->files[i], (const char(*)[NAME_SIZE])nodes, count);
    return status ? error_set(&commit->error, status, "no memory for the places of copies") : 0;
}

static bool has_copy(const void *receipts, unsigned keeper, unsigned writer)
{
    return ((const struct replication_receipt *)receipts)[keeper].has[writer];
}

/* Put the nodes of the shares into the commit record. Runs before any folder gets its final name: a
 * record without nodes would mean one folder for all nodes. */
static int tell_places(struct checkpoint_commit *commit)
{
    int status = copies_places(commit->replication->plan, has_copy, commit->copies.receipts,
                               &commit->result.shares);

    if (status == -ENOSPC)
        return error_set(&commit->error, status,
                         "the record of a checkpoint has room for %u bytes of places of copies; "
                         "those of %u nodes are more: fewer copies or shorter names of nodes fit",
                         COPIES_SHARES_SIZE, commit->replication->writer_count);
    return status ? error_set(&commit->error, status, "no memory for the places of copies") : 0;
}

static void warn_of_missing(struct checkpoint_commit *commit)
{
    const struct plan *plan = commit->replication->plan;
    const char *problem = "";
    unsigned fewest = plan->checkpoints.copies;

    for (unsigned copy_node = 0; copy_node < commit->replication->writer_count; copy_node++) {
        char nodes[MANIFEST_NODES_MAX][NAME_SIZE];
        fewest = MIN(fewest, places_of(commit, copy_node, nodes));
        if (!problem[0])
            problem = commit->copies.receipts[copy_node].problem;
    }
    if (fewest >= plan->checkpoints.copies)
        return;
    snprintf(commit->warning, sizeof(commit->warning), "checkpoints have %u of %u copies: %.300s",
             fewest, plan->checkpoints.copies,
             problem[0] ? problem : "the job runs on fewer nodes than that at the moment");
}

static uint64_t total_bytes(const struct manifest *manifest)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < manifest->file_count; i++)
        sum += manifest->files[i].size_bytes;
    return sum;
}

static uint64_t keepers_deadline(uint64_t size_bytes)
{
    return clock_monotonic_ns() + KEEPERS_NS + size_bytes / KEEPERS_BYTES_A_SEC * NS_PER_SECOND;
}

/* A keeper that could not remove its folder may still hold copies of an earlier attempt, which
 * divided the state differently. */
static int check_receipts(struct checkpoint_commit *commit)
{
    const struct replication *replication = commit->replication;

    for (unsigned keeper = 0; keeper < replication->writer_count; keeper++) {
        const struct replication_receipt *receipt = &commit->copies.receipts[keeper];
        struct hash128 expected = {0};
        for (unsigned copy_node = 0; copy_node < replication->writer_count; copy_node++)
            if (receipt->has[copy_node])
                replication_add_digest(&expected, commit->copies.part_digests[copy_node]);
        if (receipt->has_digest && !hash128_equal(receipt->digest, expected))
            return error_set(&commit->error, -EBADMSG,
                             "node %s has copies of an earlier attempt at the checkpoint of step "
                             "%" PRIu64 ": look whether %s can be written there",
                             replication->plan->checkpoints.copy_nodes[keeper].node, commit->step,
                             commit->folder);
    }
    return 0;
}

/* Within a step, a keeper begins when its worker polls, perhaps only at the end of the step: there
 * is no limit until the step's commit has told all keepers.
 * @deadline_ns: 0: not known yet */
static int await_receipt(struct checkpoint_commit *commit, unsigned copy_node, uint64_t size_bytes,
                         uint64_t *deadline_ns)
{
    int status;

    do {
        if (!*deadline_ns && __atomic_load_n(&commit->copies.keepers_told, __ATOMIC_ACQUIRE))
            *deadline_ns = keepers_deadline(size_bytes);
        status = replication_await_receipt(commit->replication, copy_node,
                                           *deadline_ns ? *deadline_ns
                                                        : clock_monotonic_ns() + KEEPERS_LOOK_NS,
                                           &commit->copies.receipts[copy_node], &commit->error);
    } while (status == -ETIMEDOUT && !*deadline_ns);
    return status;
}

static int collect_receipts(struct checkpoint_commit *commit, uint64_t size_bytes)
{
    struct replication *replication = commit->replication;
    int status = replication_receive(replication, &commit->copies.receipts[replication->self],
                                     &commit->error);
    uint64_t deadline_ns = 0;

    for (unsigned copy_node = 0; !status && copy_node < replication->writer_count; copy_node++)
        if (copy_node != replication->self)
            status = await_receipt(commit, copy_node, size_bytes, &deadline_ns);
    return status ? status : check_receipts(commit);
}

/* Return the bytes that every keeper fetches from the node of rank 0. */
static uint64_t bytes_for_all(const struct manifest *manifest)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < manifest->file_count; i++)
        if (manifest->files[i].node_count == 0)
            sum += manifest->files[i].size_bytes;
    return sum;
}

static int commit_copies(struct checkpoint_commit *commit, const struct manifest *manifest)
{
    struct replication *replication = commit->replication;
    struct control_checkpoint *result = &commit->result;
    struct replication_seal seal = {.digest = manifest->state_digest};
    uint64_t shared_bytes = replication->writer_count * bytes_for_all(manifest);
    int status = tell_places(commit);

    if (!status)
        status = folder_commit_copies(&replication->local, manifest, commit->config, seal.sha256,
                                      &commit->error);
    if (!status)
        status = replication_write_seal(replication, &seal, &commit->error);
    for (unsigned copy_node = 0; !status && copy_node < replication->writer_count; copy_node++) {
        uint64_t deadline_ns = keepers_deadline(shared_bytes); /* restarts for each node */
        if (copy_node != replication->self)
            status = replication_await_placed(replication, copy_node, &seal, deadline_ns,
                                              &commit->error);
    }
    if (!status)
        status = replication_place(replication, &seal, result->path, &commit->error);
    if (status)
        return status;
    memcpy(result->manifest_sha256, seal.sha256, sizeof(seal.sha256));
    warn_of_missing(commit);
    return 0;
}

/* ---- with and without copies ---- */

/* Fetch the part of @rank; with copies its digest is added up, once. */
static int fetch_part(struct checkpoint_commit *commit, unsigned rank, struct manifest *ret_part)
{
    struct hash128 digest;
    unsigned tries = 0;
    int status;

    if (!commit->replication)
        return read_part(commit, rank, ret_part);
    do
        status = replication_part(commit->replication, rank, ret_part, &digest, &commit->error);
    while (replication_tries_again(commit->replication, status, &tries));
    if (!status && !commit->copies.receipts)
        replication_add_digest(
            &commit->copies.part_digests[replication_copy_node(commit->replication, rank)], digest);
    return status;
}

static int merge_parts(struct checkpoint_commit *commit, struct manifest *into)
{
    int status = 0;

    for (unsigned rank = 0; !status && rank < commit->world; rank++) {
        struct manifest part = {0};
        size_t first_file = into->file_count;
        if (commit->left_out[rank])
            continue;
        status = fetch_part(commit, rank, &part);
        if (!status)
            status = manifest_merge(into, &part, &commit->error);
        if (!status && commit->replication && commit->copies.receipts)
            status = name_places(commit, into, first_file, rank);
        manifest_done(&part);
    }
    return status;
}

/* A failure is only logged: the checkpoint is restorable without metrics. */
static void save_history(const struct checkpoint_commit *commit, struct manifest *manifest)
{
    char part[1024], before[FOLDER_PATH_SIZE];
    struct manifest earlier = {0};
    struct history_source source = {.metrics_path = commit->metrics_path, .before = before};
    struct error error = {0};

    if (!commit->metrics_path[0])
        return;
    checkpoint_part_path(commit->folder, commit->step, commit->generation, part);
    if (!folder_shared_before(commit->folder, commit->step, before, &earlier))
        source.manifest = &earlier;
    int status = history_save(&source, commit->step, part, manifest, &error);
    manifest_done(&earlier);
    if (status)
        log_warning("the checkpoint of step %" PRIu64 " goes without metrics: %s", commit->step,
                    error.text);
}

/* A failure is only logged: the checkpoint is restorable without these files. */
static void save_source_files(struct checkpoint_commit *commit, struct manifest *manifest)
{
    char part[1024], left_out[MODEL_FILES_WORDS];
    const struct source_files files = {.spec = commit->spec,
                                       .checkpoints = commit->folder,
                                       .restored = commit->restored,
                                       .step = commit->step,
                                       .part = part,
                                       .own_config = commit->config};
    json_t *config = NULL;
    struct error error = {0};

    checkpoint_part_path(commit->folder, commit->step, commit->generation, part);
    int status = source_files_take(&files, manifest, &config, left_out, &error);
    if (status < 0)
        log_warning("the checkpoint of step %" PRIu64 " goes without tokenizer files: %s",
                    commit->step, error.text);
    if (status)
        return;
    if (left_out[0])
        log_warning("checkpoints go without a file of model.from: %s", left_out);
    json_decref(commit->config);
    commit->config = config;
}

static int assemble(struct checkpoint_commit *commit, struct manifest *ret_manifest)
{
    int status;

    snprintf(ret_manifest->job, sizeof(ret_manifest->job), "%s", commit->job);
    ret_manifest->step = commit->step;
    ret_manifest->generation = commit->generation;
    ret_manifest->spec = json_incref(commit->spec);
    ret_manifest->state = json_incref(commit->state);
    status = merge_parts(commit, ret_manifest);
    if (!status)
        save_history(commit, ret_manifest);
    if (!status)
        save_source_files(commit, ret_manifest);
    return status ? status : manifest_seal(ret_manifest, commit->tensor_count, &commit->error);
}

/* Runs before the manifest is written, which lists the nodes of the copies. */
static int gather_copies(struct checkpoint_commit *commit)
{
    struct manifest all = {0};

    commit->copies.part_digests =
        calloc((size_t)commit->replication->writer_count + 1, sizeof(*commit->copies.part_digests));
    if (!commit->copies.part_digests)
        return error_set(&commit->error, -ENOMEM, "no memory for the copies of a checkpoint");
    int status = merge_parts(commit, &all);
    uint64_t size_bytes = total_bytes(&all);

    manifest_done(&all);
    if (status)
        return status;
    commit->copies.receipts =
        calloc((size_t)commit->replication->writer_count + 1, sizeof(*commit->copies.receipts));
    if (!commit->copies.receipts)
        return error_set(&commit->error, -ENOMEM, "no memory for the copies of a checkpoint");
    return collect_receipts(commit, size_bytes);
}

static void *run_commit(void *argument)
{
    struct checkpoint_commit *commit = argument;
    struct control_checkpoint *result = &commit->result;
    struct manifest manifest = {0};
    int status = commit->replication ? gather_copies(commit) : 0;

    if (!status)
        status = assemble(commit, &manifest);
    if (!status)
        status = commit->replication ? commit_copies(commit, &manifest)
                                     : commit_manifest(commit, &manifest);
    if (!status) {
        result->generation = commit->generation;
        result->step = commit->step;
        result->frozen_layers = commit->frozen_layers;
        result->size_bytes = total_bytes(&manifest);
        result->stall_seconds = (double)commit->stall_ns / 1e9;
        result->write_seconds = (double)(clock_monotonic_ns() - commit->began_ns) / 1e9;
    } else if (commit->replication) {
        drop_shares(commit);
    }
    manifest_done(&manifest);
    commit->status = status;
    __atomic_store_n(&commit->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void commit_free(struct checkpoint_commit *commit)
{
    json_decref(commit->spec);
    json_decref(commit->state);
    json_decref(commit->config);
    control_checkpoint_done(&commit->result);
    free(commit->copies.receipts);
    free(commit->copies.part_digests);
    free(commit->left_out);
    free(commit);
}

struct checkpoint_commit *checkpoint_commit_start(const struct checkpoint_commit_options *options)
{
    struct checkpoint_commit *commit = calloc(1, sizeof(*commit));

    if (!commit)
        return NULL;
    *commit = (struct checkpoint_commit){
        .io = options->io,
        .step = options->step,
        .generation = options->generation,
        .world = options->world,
        .tensor_count = options->tensor_count,
        .frozen_layers = options->frozen_layers,
        .spec = job_spec_encode(options->spec),
        .state = json_deep_copy(options->state), /* references are counted by one thread */
        .config = json_deep_copy(options->config),
        .began_ns = options->began_ns,
        .stall_ns = options->stall_ns,
        .replication = options->replication,
    };
    snprintf(commit->folder, sizeof(commit->folder), "%s", options->folder);
    snprintf(commit->metrics_path, sizeof(commit->metrics_path), "%s", options->metrics_path);
    snprintf(commit->restored, sizeof(commit->restored), "%s", options->restored);
    snprintf(commit->job, sizeof(commit->job), "%s", options->spec->name);
    commit->left_out = calloc(commit->world, sizeof(*commit->left_out));
    if (commit->left_out)
        memcpy(commit->left_out, options->left_out, commit->world * sizeof(*commit->left_out));
    if (commit->left_out && commit->state && commit->config &&
        !pthread_create(&commit->thread, NULL, run_commit, commit))
        return commit;
    commit_free(commit);
    return NULL;
}

void checkpoint_commit_keepers_told(struct checkpoint_commit *commit)
{
    __atomic_store_n(&commit->copies.keepers_told, true, __ATOMIC_RELEASE);
}

bool checkpoint_commit_done(const struct checkpoint_commit *commit)
{
    return __atomic_load_n(&commit->done, __ATOMIC_ACQUIRE);
}

uint64_t checkpoint_commit_step(const struct checkpoint_commit *commit)
{
    return commit->step;
}

uint64_t checkpoint_commit_generation(const struct checkpoint_commit *commit)
{
    return commit->generation;
}

int checkpoint_commit_finish(struct checkpoint_commit *commit,
                             struct control_checkpoint *ret_result,
                             char ret_warning[CONTROL_TEXT_SIZE], struct error *error)
{
    pthread_join(commit->thread, NULL);
    int status = commit->status;

    if (status && error)
        *error = commit->error;
    if (!status) {
        *ret_result = commit->result;
        commit->result.shares = NULL; /* owned by the caller now */
        memcpy(ret_warning, commit->warning, CONTROL_TEXT_SIZE);
    }
    commit_free(commit);
    return status;
}
