#include "ctl/checkpoint/checkpoint_find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/cluster/cluster.h"

#define REMOTE_TIMEOUT_NS (2 * NS_PER_SECOND)

static bool is_path(const char *text)
{
    return strchr(text, '/') || !strcmp(text, ".") || !strcmp(text, "..");
}

static bool has_manifest(const char *folder)
{
    char path[RECORD_PATH_SIZE + 32];

    snprintf(path, sizeof(path), "%s/%s", folder, MANIFEST_NAME);
    return !access(path, F_OK);
}

static int find_in_folder(const char *folder, bool any, uint64_t step,
                          struct checkpoint_place *ret_place, struct error *error)
{
    AUTO_FREE uint64_t *steps = NULL;
    size_t count = 0;
    int status = checkpoint_list(folder, &steps, &count, error);

    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        if (any || steps[i] == step) {
            checkpoint_path(folder, steps[i], ret_place->path);
            return 0;
        }
    if (any)
        return error_set(error, -ENOENT, "%s is neither a checkpoint nor a folder with any",
                         folder);
    return error_set(error, -ENOENT, "%s has no complete checkpoint of step %" PRIu64, folder,
                     step);
}

static int find_at(const char *path, bool one_step, uint64_t step,
                   struct checkpoint_place *ret_place, struct error *error)
{
    if (strlen(path) >= sizeof(ret_place->path) - 32)
        return error_set(error, -ENAMETOOLONG, "the path is longer than %zu bytes: %.40s...",
                         sizeof(ret_place->path) - 33, path);
    if (has_manifest(path) && !one_step) {
        strcpy(ret_place->path, path);
        return 0;
    }
    return find_in_folder(path, !one_step, step, ret_place, error);
}

int checkpoint_find_path(const char *path, struct checkpoint_place *ret_place, struct error *error)
{
    *ret_place = (struct checkpoint_place){0};
    return find_at(path, false, 0, ret_place, error);
}

/* Prepare to read copies: etcd has the registered nodes and the key of the plan in force. */
static int reach_copies(const struct cluster *cluster, const struct cluster_job *job,
                        struct checkpoint_place *place, struct error *error)
{
    AUTO_FREE struct checkpoint_remote_node *nodes =
        calloc(cluster->node_count + 1, sizeof(*nodes));
    struct checkpoint_remote_options options = {.job = job->name,
                                                .nodes = nodes,
                                                .node_count = (unsigned)cluster->node_count,
                                                .timeout_ns = REMOTE_TIMEOUT_NS};

    if (!nodes)
        return error_set(error, -ENOMEM, "no memory to reach the nodes");
    if (!job->plan || !plan_key_bytes(job->plan->links.key, options.key))
        return error_set(error, -ENOKEY,
                         "job %s has no plan yet, and so no key to prove to the nodes", job->name);
    for (size_t i = 0; i < cluster->node_count; i++) {
        memcpy(nodes[i].name, cluster->nodes[i].name, NAME_SIZE);
        memcpy(nodes[i].http, cluster->nodes[i].record.http, ADDRESS_SIZE);
    }
    return checkpoint_remote_new(&options, &place->remote, error);
}

void checkpoint_place_done(struct checkpoint_place *place)
{
    checkpoint_remote_free(place->remote);
    place->remote = NULL;
}

int checkpoint_place_open(const struct checkpoint_place *place,
                          struct checkpoint_reader **ret_reader, struct error *error)
{
    struct manifest manifest = {0};
    const struct checkpoint_source source = {.folder = place->path,
                                             .node = "",
                                             .manifest_sha256 = place->manifest_sha256,
                                             .remote = place->remote};
    int status = 0;

    if (place->remote)
        return checkpoint_open_copies(&source, ret_reader, error);
    if (place->manifest_sha256[0]) /* only the committed manifest's checksums count */
        status = manifest_load(place->path, place->manifest_sha256, &manifest, error);
    manifest_done(&manifest);
    return status ? status : checkpoint_open(place->path, ret_reader, error);
}

int checkpoint_find_record(const struct cluster *cluster, const struct cluster_job *job,
                           const struct checkpoint_record *record,
                           struct checkpoint_place *ret_place, struct error *error)
{
    memcpy(ret_place->path, record->path, sizeof(ret_place->path));
    memcpy(ret_place->manifest_sha256, record->manifest_sha256, RECORD_DIGEST_SIZE);
    memcpy(ret_place->job, job->name, NAME_SIZE);
    memcpy(ret_place->damaged, record->damaged, sizeof(ret_place->damaged));
    ret_place->step = record->step;
    ret_place->newest = record == cluster_sound_checkpoint(job);
    ret_place->pinned = record->pinned;
    return record->shares ? reach_copies(cluster, job, ret_place, error) : 0;
}

/* Warn that newer checkpoints are damaged, so that the user does not take an older one for the
 * newest. */
static void warn_of_damaged(const struct cluster_job *job, const struct checkpoint_record *found)
{
    const struct checkpoint_record *newest = found;

    for (size_t i = 0; i < job->checkpoint_count; i++)
        if (job->checkpoints[i].step > newest->step)
            newest = &job->checkpoints[i];
    if (newest != found)
        fprintf(stderr,
                "firnctl: warning: the checkpoint of step %" PRIu64
                " is known to be damaged; this is of step %" PRIu64 "\n",
                newest->step, found->step);
}

static int find_by_job(const struct arguments *arguments, struct checkpoint_place *ret_place,
                       struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    bool one_step = arguments_has(arguments, "step");
    uint64_t step = arguments_number(arguments, "step", 0);
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job) {
        error_prefix(error, "not a path (no slash in it), and ");
        return -ENOENT;
    }
    const struct checkpoint_record *sound = cluster_sound_checkpoint(job);
    for (size_t i = 0; i < job->checkpoint_count; i++) {
        const struct checkpoint_record *record = &job->checkpoints[i];
        if (one_step ? record->step != step : sound && record != sound)
            continue;
        if (!one_step)
            warn_of_damaged(job, record);
        return checkpoint_find_record(&cluster, job, record, ret_place, error);
    }
    if (one_step)
        return error_set(error, -ENOENT,
                         "job %s has no checkpoint of step %" PRIu64
                         "; firnctl checkpoint list %s shows those it has",
                         job->name, step, job->name);
    return error_set(error, -ENOENT, "job %s has no checkpoint yet", job->name);
}

int checkpoint_find(const struct arguments *arguments, struct checkpoint_place *ret_place,
                    struct error *error)
{
    *ret_place = (struct checkpoint_place){0};
    if (!is_path(arguments->operands[0]))
        return find_by_job(arguments, ret_place, error);
    return find_at(arguments->operands[0], arguments_has(arguments, "step"),
                   arguments_number(arguments, "step", 0), ret_place, error);
}
