#include "checkpoint/object/object_fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/read/reader.h"

#define WINDOW_BYTES (4 * (uint64_t)MANIFEST_CHUNK_BYTES) /* of one request */

struct fetching {
    const struct object_store *store;
    const struct object_fetch_options *options;
    struct object_checkpoint checkpoint;
    struct manifest manifest;
    struct bytes manifest_text;
    char part[FOLDER_PATH_SIZE];
    uint8_t *buffer;
    uint64_t done, total;
    struct error *error;
};

int object_find(const struct object_store *store, const struct object_fetch_options *options,
                struct object_checkpoint *ret_checkpoint, struct error *error)
{
    char job_prefix[OBJECT_KEY_SIZE];
    struct object_list list = {0};
    struct object_catalog catalog = {0};
    int status = object_job_prefix(options->prefix, options->job, job_prefix);
    if (status != 0)
        return error_set(error, status, "the prefix and the job's name are too long for a key");
    status = store->list(store->context, job_prefix, &list, error);
    if (status == 0 && (status = object_catalog_make(&list, job_prefix, &catalog)) != 0)
        error_set(error, status, "no memory to look at the store's checkpoints");
    if (status == 0) {
        const struct object_checkpoint *found =
            object_catalog_find(&catalog, options->step, options->any_up_to);
        if (found != NULL)
            *ret_checkpoint = *found;
        else if (options->any_up_to)
            status = error_set(error, -ENOENT, "%s has no complete checkpoint of job %s",
                               store->where, options->job);
        else
            status = error_set(error, -ENOENT, "%s has no complete checkpoint of job %s, step %llu",
                               store->where, options->job, (unsigned long long)options->step);
    }
    object_catalog_done(&catalog);
    object_list_done(&list);
    return status;
}

/* Return whether the manifest is of @job: a job's name as in keys, with or without the ID of the
 * submission. */
static bool is_of_job(const struct manifest *manifest, const char *job)
{
    size_t length = strlen(manifest->job);
    return strncmp(job, manifest->job, length) == 0 && (job[length] == '\0' || job[length] == '.');
}

/* ---- single requests, with retries ---- */

typedef int (*check_function)(struct fetching *fetching, size_t file, uint64_t offset,
                              uint64_t size_bytes);

/* Get a range and retry. Damaged data is requested once more, because the transfer may have damaged
 * it. */
static int get(struct fetching *fetching, const char *name, uint64_t offset, void *to,
               uint64_t size_bytes, check_function check, size_t file)
{
    const struct object_store *store = fetching->store;
    char key[OBJECT_KEY_SIZE];
    object_file_key(fetching->checkpoint.folder, name, key);
    for (unsigned tries = 1;; tries++) {
        int status = store->get(store->context, key, offset, to, size_bytes, fetching->error);
        if (status == 0 && check)
            status = check(fetching, file, offset, size_bytes);
        /* One retry of damaged data is enough: after that the object itself is damaged. */
        if (status == 0 || !object_may_pass(status) || tries == OBJECT_TRIES_MAX ||
            (status == -EBADMSG && tries > 1))
            return status;
        status =
            object_pause(&fetching->options->watch, object_wait_ns(tries), fetching->error->text);
        if (status != 0)
            return status;
    }
}

static int fetch_manifest(struct fetching *fetching)
{
    const struct object_checkpoint *checkpoint = &fetching->checkpoint;
    const struct object_fetch_options *options = fetching->options;
    char found[65];
    if (checkpoint->manifest_bytes == 0 || checkpoint->manifest_bytes > MANIFEST_BYTES_MAX)
        return error_set(fetching->error, -EBADMSG, "%s/%s%s: has %llu bytes",
                         fetching->store->where, checkpoint->folder, MANIFEST_NAME,
                         (unsigned long long)checkpoint->manifest_bytes);
    struct bytes *text = &fetching->manifest_text;
    text->data = malloc(checkpoint->manifest_bytes);
    if (!text->data)
        return error_set(fetching->error, -ENOMEM, "no memory for a manifest");
    text->size_bytes = text->capacity_bytes = checkpoint->manifest_bytes;
    int status = get(fetching, MANIFEST_NAME, 0, text->data, text->size_bytes, NULL, 0);
    if (status != 0)
        return status;
    manifest_sha256(text->data, text->size_bytes, found);
    if (strncmp(found, checkpoint->id, OBJECT_ID_SIZE - 1) != 0 ||
        (options->manifest_sha256 && strcmp(found, options->manifest_sha256) != 0))
        return error_set(fetching->error, -EBADMSG,
                         "%s/%s%s: damaged, or not the manifest that was committed (SHA-256 "
                         "%.16s...)",
                         fetching->store->where, checkpoint->folder, MANIFEST_NAME, found);
    status = manifest_parse((const char *)text->data, text->size_bytes, MANIFEST_NAME,
                            &fetching->manifest, fetching->error);
    if (status == 0 && (!is_of_job(&fetching->manifest, options->job) ||
                        fetching->manifest.step != checkpoint->step))
        status = error_set(fetching->error, -EBADMSG, "%s/%s%s: is of job %s, step %llu",
                           fetching->store->where, checkpoint->folder, MANIFEST_NAME,
                           fetching->manifest.job, (unsigned long long)fetching->manifest.step);
    return status;
}

/* ---- files ---- */

/* Return the first chunk of the buffer with a wrong CRC, or -1 */
static int64_t damaged_chunk(const struct fetching *fetching, size_t file, uint64_t offset,
                             uint64_t size_bytes)
{
    const uint32_t *crcs = fetching->manifest.files[file].chunk_crcs;
    for (uint64_t at = 0; at < size_bytes; at += MANIFEST_CHUNK_BYTES) {
        uint64_t chunk = (offset + at) / MANIFEST_CHUNK_BYTES;
        size_t size = MIN(size_bytes - at, (uint64_t)MANIFEST_CHUNK_BYTES);
        if (hash_crc32c(0, fetching->buffer + at, size) != crcs[chunk])
            return (int64_t)chunk;
    }
    return -1;
}

static int check_chunks(struct fetching *fetching, size_t file, uint64_t offset,
                        uint64_t size_bytes)
{
    int64_t chunk = damaged_chunk(fetching, file, offset, size_bytes);
    if (chunk < 0)
        return 0;
    return error_set(fetching->error, -EBADMSG,
                     "%s/%s%s: chunk %lld is damaged (its CRC32C is not the manifest's)",
                     fetching->store->where, fetching->checkpoint.folder,
                     fetching->manifest.files[file].name, (long long)chunk);
}

static bool is_there(struct fetching *fetching, int descriptor, size_t file, uint64_t offset,
                     uint64_t size_bytes)
{
    for (uint64_t done = 0; done < size_bytes;) {
        ssize_t got =
            pread(descriptor, fetching->buffer + done, size_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (uint64_t)got;
    }
    return damaged_chunk(fetching, file, offset, size_bytes) < 0;
}

static int write_all(int descriptor, const uint8_t *from, uint64_t size_bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < size_bytes;) {
        ssize_t put = pwrite(descriptor, from + done, size_bytes - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put == 0 ? -EIO : -errno;
        done += (uint64_t)put;
    }
    return 0;
}

static int fetch_window(struct fetching *fetching, int descriptor, size_t file, uint64_t offset,
                        uint64_t size_bytes, bool old)
{
    const struct object_watch *watch = &fetching->options->watch;
    int status = 0;
    if (!old || !is_there(fetching, descriptor, file, offset, size_bytes)) {
        status = get(fetching, fetching->manifest.files[file].name, offset, fetching->buffer,
                     size_bytes, check_chunks, file);
        if (status == 0 &&
            (status = write_all(descriptor, fetching->buffer, size_bytes, offset)) != 0)
            error_set(fetching->error, status, "writing %s/%s: %s", fetching->part,
                      fetching->manifest.files[file].name, strerror(-status));
    }
    fetching->done += size_bytes;
    if (status == 0 && watch->progress)
        watch->progress(watch->context, fetching->done, fetching->total);
    return status;
}

static int fetch_file(struct fetching *fetching, size_t index)
{
    const struct manifest_file *file = &fetching->manifest.files[index];
    char path[FOLDER_FILE_SIZE];
    struct stat about;
    int status = 0;
    folder_file_path(fetching->part, file->name, path);
    AUTO_CLOSE int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor < 0 || fstat(descriptor, &about) != 0)
        return error_set(fetching->error, -errno, "%s: %s", path, strerror(errno));
    bool old = about.st_size > 0;
    if (ftruncate(descriptor, (off_t)file->size_bytes) != 0)
        status = -errno;
    if (status == 0 && file->size_bytes > 0) /* detect a full disk now, not after an hour */
        status = -posix_fallocate(descriptor, 0, (off_t)file->size_bytes);
    if (status != 0)
        return error_set(fetching->error, status, "reserving %llu bytes for %s: %s",
                         (unsigned long long)file->size_bytes, path, strerror(-status));
    for (uint64_t at = 0; status == 0 && at < file->size_bytes; at += WINDOW_BYTES)
        status = fetch_window(fetching, descriptor, index, at,
                              MIN(file->size_bytes - at, WINDOW_BYTES), old);
    if (status == 0 && fdatasync(descriptor) != 0)
        status = error_set(fetching->error, -errno, "syncing %s: %s", path, strerror(errno));
    return status;
}

/* ---- the folder ---- */

static void parent_of(const char *path, char ret_parent[FOLDER_PATH_SIZE])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!slash)
        strcpy(ret_parent, ".");
    else
        snprintf(ret_parent, FOLDER_PATH_SIZE, "%.*s", length == 0 ? 1 : (int)length, path);
}

/* Move a folder at the destination away: it could not be used, but may be the only copy of its
 * data. */
static int set_aside(const char *to, struct error *error)
{
    char damaged[FOLDER_PATH_SIZE + 16];
    snprintf(damaged, sizeof(damaged), "%s.damaged", to);
    if (access(to, F_OK) != 0)
        return 0;
    int status = folder_remove(damaged, error);
    if (status == 0 && rename(to, damaged) != 0)
        status = error_set(error, -errno, "renaming %s to %s: %s", to, damaged, strerror(errno));
    return status;
}

static int finish(struct fetching *fetching)
{
    char path[FOLDER_FILE_SIZE], parent[FOLDER_PATH_SIZE];
    const char *to = fetching->options->to;
    struct checkpoint_reader *reader;
    folder_file_path(fetching->part, MANIFEST_NAME, path);
    int status = file_replace(path, fetching->manifest_text.data,
                              fetching->manifest_text.size_bytes, 0644, fetching->error);
    if (status == 0)
        status = checkpoint_open(fetching->part, &reader, fetching->error);
    if (status != 0)
        return status;
    checkpoint_close(reader);
    parent_of(to, parent);
    status = fetching->options->sets_aside ? set_aside(to, fetching->error) : 0;
    if (status != 0)
        return status;
    if (rename(fetching->part, to) != 0)
        return error_set(fetching->error, -errno, "renaming %s to %s: %s", fetching->part, to,
                         strerror(errno));
    return file_sync_directory(parent, fetching->error);
}

static int fetch_found(struct fetching *fetching)
{
    int status = fetch_manifest(fetching);
    if (status == 0)
        status = file_make_directories(fetching->part, 0755, fetching->error);
    if (status != 0)
        return status;
    fetching->buffer = malloc(WINDOW_BYTES);
    if (!fetching->buffer)
        return error_set(fetching->error, -ENOMEM, "no memory to fetch a checkpoint");
    for (size_t i = 0; i < fetching->manifest.file_count; i++)
        fetching->total += fetching->manifest.files[i].size_bytes;
    for (size_t i = 0; status == 0 && i < fetching->manifest.file_count; i++)
        status = fetch_file(fetching, i);
    return status == 0 ? finish(fetching) : status;
}

int object_fetch(const struct object_store *store, const struct object_fetch_options *options,
                 struct object_checkpoint *ret_checkpoint, struct error *error)
{
    struct error ours = {0};
    struct stat about;
    struct fetching fetching = {.store = store, .options = options, .error = &ours};
    int status = 0;
    size_t length = strlen(options->to);
    if (length == 0 || options->to[length - 1] == '/' ||
        snprintf(fetching.part, sizeof(fetching.part), "%s.part", options->to) >=
            (int)sizeof(fetching.part) - 32)
        status = error_set(&ours, -EINVAL, "\"%.200s\" is not the path of a folder to make",
                           options->to);
    else if (!options->sets_aside && lstat(options->to, &about) == 0)
        status = error_set(&ours, -EEXIST, "%s is there already", options->to);
    if (status == 0)
        status = object_find(store, options, &fetching.checkpoint, &ours);
    if (status == 0)
        status = fetch_found(&fetching);
    if (status == 0)
        *ret_checkpoint = fetching.checkpoint;
    free(fetching.buffer);
    manifest_done(&fetching.manifest);
    bytes_done(&fetching.manifest_text);
    if (status != 0 && error)
        *error = ours;
    return status;
}
