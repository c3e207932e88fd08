#include "ctl/job/job_from.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/checkpoint/checkpoint_find.h"

static int hash_manifest(const char *folder, struct checkpoint_record *record, struct error *error)
{
    char path[RECORD_PATH_SIZE + 32];
    struct bytes text = {0};
    struct stat found;

    snprintf(path, sizeof(path), "%s/%s", folder, MANIFEST_NAME);
    int status = file_read(path, MANIFEST_BYTES_MAX, &text, error);
    if (status)
        return status;
    manifest_sha256(text.data, text.size_bytes, record->manifest_sha256);
    bytes_done(&text);
    if (!stat(path, &found))
        record->unix_ns = (uint64_t)found.st_mtim.tv_sec * NS_PER_SECOND;
    return 0;
}

static int describe(const struct manifest *manifest, const char *path,
                    struct checkpoint_record *record, struct job_spec *ret_spec,
                    struct error *error)
{
    char where[RECORD_PATH_SIZE + 32];

    const json_t *freeze = json_object_get(manifest->state, "freeze");

    record->step = manifest->step;
    record->frozen_layers = (unsigned)json_integer_value(json_object_get(freeze, "frozen_layers"));
    record->generation = manifest->generation;
    for (size_t i = 0; i < manifest->file_count; i++)
        record->size_bytes += manifest->files[i].size_bytes;
    snprintf(record->node, sizeof(record->node), "submit");
    snprintf(record->path, sizeof(record->path), "%s", path);
    snprintf(where, sizeof(where), "%s/%s", path, MANIFEST_NAME);
    return job_spec_decode(manifest->spec, where, NULL, NULL, ret_spec, error);
}

int job_from_load(const char *path, struct checkpoint_record *ret_record, struct job_spec *ret_spec,
                  struct error *error)
{
    struct checkpoint_place place = {0};
    struct checkpoint_reader *reader;
    int status = checkpoint_find_path(path, &place, error);
    AUTO_FREE char *absolute = status ? NULL : realpath(place.path, NULL);

    if (status)
        return status;
    if (!absolute || strlen(absolute) >= RECORD_PATH_SIZE)
        return error_set(error, absolute ? -ENAMETOOLONG : -errno, "%s: %s", place.path,
                         absolute ? "the path is too long" : strerror(errno));
    *ret_record = (struct checkpoint_record){0};
    status = hash_manifest(absolute, ret_record, error);
    if (!status)
        status = checkpoint_open(absolute, &reader, error);
    if (status)
        return status;
    status = describe(checkpoint_manifest(reader), absolute, ret_record, ret_spec, error);
    checkpoint_close(reader);
    return status;
}

/* ---- differences ---- */

struct difference {
    char *text;
    size_t size, used;
};

static void note(struct difference *difference, const char *path, json_t *then, json_t *now)
{
    AUTO_FREE char *old = json_dumps(then, JSON_ENCODE_ANY | JSON_COMPACT);
    AUTO_FREE char *new = json_dumps(now, JSON_ENCODE_ANY | JSON_COMPACT);

    if (difference->used < difference->size)
        difference->used +=
            (size_t)snprintf(difference->text + difference->used,
                             difference->size - difference->used, "%s%s %.80s -> %.80s",
                             difference->used ? ", " : "", path, old ? old : "-", new ? new : "-");
}

/* Compare two objects. A key that only one side has differs, too: keys with omit_if_default are
 * left out at their defaults. */
static void compare(struct difference *difference, const char *prefix, json_t *then, json_t *now)
{
    const char *key;
    json_t *value;
    char path[128];

    if (!json_is_object(then) && !json_is_object(now)) {
        if ((then || now) && !json_equal(then, now))
            note(difference, prefix, then, now);
        return;
    }
    json_object_foreach(now, key, value)
    {
        snprintf(path, sizeof(path), "%.60s.%.60s", prefix, key);
        compare(difference, path, json_object_get(then, key), value);
    }
    json_object_foreach(then, key, value)
    {
        snprintf(path, sizeof(path), "%.60s.%.60s", prefix, key);
        if (!json_object_get(now, key))
            compare(difference, path, value, NULL);
    }
}

/* Compare only settings that change the results: not paths, not the number of devices. */
static void compare_numbers(struct difference *difference, const json_t *then, const json_t *now)
{
    static const char *const sections[] = {"data", "train", "evaluate"};
    json_t *freeze_then = json_object_get(json_object_get(then, "elastic"), "freeze");
    json_t *freeze_now = json_object_get(json_object_get(now, "elastic"), "freeze");

    for (size_t i = 0; i < ARRAY_COUNT(sections); i++)
        compare(difference, sections[i], json_object_get(then, sections[i]),
                json_object_get(now, sections[i]));
    compare(difference, "elastic.freeze", freeze_then, freeze_now);
}

int job_from_check(const struct job_spec *spec, const struct job_spec *origin,
                   const struct checkpoint_record *record, char *ret_differences, size_t size,
                   struct error *error)
{
    AUTO_JSON json_t *now = job_spec_encode(spec);
    AUTO_JSON json_t *then = job_spec_encode(origin);
    struct difference difference = {.text = ret_differences, .size = size};

    if (!now || !then)
        return error_set(error, -ENOMEM, "no memory to compare two jobs");
    ret_differences[0] = '\0';
    /* The checkpoint replaces model.from. */
    json_object_del(json_object_get(now, "model"), "from");
    json_object_del(json_object_get(then, "model"), "from");
    compare(&difference, "model", json_object_get(then, "model"), json_object_get(now, "model"));
    if (difference.used)
        return error_set(error, -EINVAL, "%s holds another model: %s", record->path,
                         ret_differences);
    if (record->step >= spec->train.steps)
        return error_set(error, -EINVAL,
                         "%s is of step %" PRIu64 ", and train.steps is %" PRIu64
                         ": nothing is left to train",
                         record->path, record->step, spec->train.steps);
    if (spec->elastic.freeze.from_start > record->frozen_layers)
        return error_set(error, -EINVAL,
                         "elastic.freeze.from_start is %u, and %s goes on with the %u layers that "
                         "its job has frozen: ask for at most these, or begin a new model with "
                         "firnctl checkpoint export and model.from",
                         spec->elastic.freeze.from_start, record->path, record->frozen_layers);
    compare_numbers(&difference, then, now);
    return 0;
}
