#include "ctl/checkpoint_find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "ctl/cluster.h"

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
        return error_set(error, -ENAMETOOLONG, "the path is too long");
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

static int find_by_job(const struct arguments *arguments, struct checkpoint_place *ret_place,
                       struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(store_close) struct store store = {0};
    bool one_step = arguments_has(arguments, "step");
    uint64_t step = arguments_number(arguments, "step", 0);
    int status = store_open(arguments, &store, error);

    if (!status)
        status = cluster_load(&store, &cluster, error);
    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job) {
        error_prefix(error, "not a path (no slash in it), and ");
        return -ENOENT;
    }
    for (size_t i = 0; i < job->checkpoint_count; i++) {
        const struct checkpoint_record *record = &job->checkpoints[i];
        if (one_step && record->step != step)
            continue;
        memcpy(ret_place->path, record->path, sizeof(ret_place->path));
        memcpy(ret_place->manifest_sha256, record->manifest_sha256, RECORD_DIGEST_SIZE);
        return 0;
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
