#include "ctl/job_from.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "ctl/checkpoint_find.h"

/* What a job may change of a section and still be the same run. */
static const struct {
    const char *section, *free_key;
} sections[] = {{"data", NULL}, {"train", "steps"}, {"elastic", "devices"}};

static bool is_equal(const json_t *one, const json_t *other, const char *section,
                     const char *free_key)
{
    AUTO_JSON json_t *left = json_deep_copy(json_object_get(one, section));
    AUTO_JSON json_t *right = json_deep_copy(json_object_get(other, section));

    if (free_key) {
        json_object_del(left, free_key);
        json_object_del(right, free_key);
    }
    return left && right && json_equal(left, right);
}

static int compare(const struct manifest *manifest, const struct job_spec *spec, const char *path,
                   struct error *error)
{
    AUTO_JSON json_t *wanted = job_spec_encode(spec);

    if (!wanted)
        return error_set(error, -ENOMEM, "no memory for the job");
    if (!is_equal(manifest->spec, wanted, "model", NULL))
        return error_set(error, -EINVAL, "--from: %s is of another model than the job file's",
                         path);
    if (manifest->step >= spec->train.steps)
        return error_set(error, -EINVAL,
                         "--from: %s is at step %" PRIu64 ", and train.steps is %" PRIu64
                         ": nothing is left to train",
                         path, manifest->step, spec->train.steps);
    for (size_t i = 0; i < ARRAY_COUNT(sections); i++)
        if (!is_equal(manifest->spec, wanted, sections[i].section, sections[i].free_key))
            fprintf(
                stderr,
                "firnctl: warning: %s of the job file is not that of the job which wrote %s: the "
                "run will not be that run\n",
                sections[i].section, path);
    return 0;
}

static uint64_t total_bytes(const struct manifest *manifest)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < manifest->file_count; i++)
        sum += manifest->files[i].size_bytes;
    return sum;
}

static int hash_manifest(const char *folder, char ret_sha256[RECORD_DIGEST_SIZE],
                         struct error *error)
{
    char path[RECORD_PATH_SIZE + 32];
    struct bytes text = {0};

    snprintf(path, sizeof(path), "%s/%s", folder, MANIFEST_NAME);
    int status = file_read(path, MANIFEST_BYTES_MAX, &text, error);
    if (!status)
        manifest_sha256(text.data, text.size_bytes, ret_sha256);
    bytes_done(&text);
    return status;
}

int job_from_checkpoint(const char *path, const struct job_spec *spec,
                        struct checkpoint_record *ret_record, struct error *error)
{
    struct checkpoint_record record = {.unix_ns = clock_real()->realtime_ns(clock_real()->context)};
    struct checkpoint_place place;
    struct manifest manifest = {0};
    int status = checkpoint_find_path(path, &place, error);

    if (status)
        return status;
    AUTO_FREE char *absolute = realpath(place.path, NULL);
    if (!absolute || strlen(absolute) >= sizeof(record.path))
        return error_set(error, absolute ? -ENAMETOOLONG : -errno, "--from: %s: %s", place.path,
                         absolute ? "the path is too long" : strerror(errno));
    strcpy(record.path, absolute);
    status = hash_manifest(absolute, record.manifest_sha256, error);
    if (!status)
        status = manifest_load(absolute, record.manifest_sha256, &manifest, error);
    if (!status)
        status = compare(&manifest, spec, absolute, error);
    if (!status) {
        record.step = manifest.step;
        record.generation = manifest.generation;
        record.size_bytes = total_bytes(&manifest);
        *ret_record = record;
    }
    manifest_done(&manifest);
    return status;
}
