/*
 * Commit a folder of durable shares as a checkpoint.
 *
 * The rename from .part to the final name is the commit on disk: every file in the manifest, and
 * the manifest itself, is durable before the rename, and the name is durable after the parent's
 * fsync. So a reader finds either the final name with all its files, or no such name.
 */
#include "checkpoint/write/folder_commit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/write/writer.h"

#define INDEX_NAME  "model.safetensors.index.json"
#define CONFIG_NAME "config.json"

struct folder_commit {
    const struct io *io;
    struct io_context *context;
    char part[FOLDER_PATH_SIZE], path[FOLDER_PATH_SIZE];
    /* spec, state, tensors borrowed; files: the shares', then this commit's own */
    struct manifest manifest;
    /* NULL: all files must be here; else only those of this node */
    const char *node;
    struct error *error;
};

static int fail(struct folder_commit *commit, int code, const char *action, const char *path)
{
    return error_set(commit->error, code, "cannot %s %s: %s", action, path, strerror(-code));
}

static int check_file(struct folder_commit *commit, const struct manifest_file *file)
{
    char path[FOLDER_FILE_SIZE];
    struct stat status;
    folder_file_path(commit->part, file->name, path);
    if (stat(path, &status) != 0) {
        int code = -errno;
        return error_set(
            commit->error, code, "%s: %s%s", path, strerror(-code),
            !commit->node ? " (do all nodes of the job reach the same checkpoint folder?)" : "");
    }
    if ((uint64_t)status.st_size != file->size_bytes)
        return error_set(commit->error, -EBADMSG,
                         "%s has %" PRIu64 " bytes; its part says %" PRIu64, path,
                         (uint64_t)status.st_size, file->size_bytes);
    return 0;
}

static int check_folder(struct folder_commit *commit)
{
    struct stat found;
    if (!commit->node && lstat(commit->path, &found) == 0)
        return error_set(commit->error, -EEXIST, "%s is there already", commit->path);
    int status = 0;
    for (size_t i = 0; status == 0 && i < commit->manifest.file_count; i++) {
        if (!commit->node || manifest_file_on(&commit->manifest.files[i], commit->node))
            status = check_file(commit, &commit->manifest.files[i]);
    }
    return status;
}

static int write_content(struct folder_commit *commit, int descriptor, const void *data,
                         size_t size_bytes, const char *path)
{
    uint64_t user;
    int status = commit->io->write(commit->context, descriptor, data, size_bytes, 0, 0);
    if (status == 0) {
        status = commit->io->drain(commit->context, true, &user);
        assert(status != 0);
    }
    if (status < 0)
        return fail(commit, status, "write", path);
    status = commit->io->sync(commit->context, descriptor);
    return status == 0 ? 0 : fail(commit, status, "sync", path);
}

static int write_file(struct folder_commit *commit, const char *name, const void *data,
                      size_t size_bytes)
{
    char path[FOLDER_FILE_SIZE];
    folder_file_path(commit->part, name, path);
    int status = commit->io->unlink(commit->context, path); /* from an earlier attempt */
    if (status != 0 && status != -ENOENT)
        return fail(commit, status, "replace", path);
    int descriptor = commit->io->create(commit->context, path, false);
    if (descriptor < 0)
        return fail(commit, descriptor, "create", path);
    status = write_content(commit, descriptor, data, size_bytes, path);
    int closed = commit->io->close_file(commit->context, descriptor);
    if (status == 0 && closed != 0)
        status = fail(commit, closed, "close", path);
    return status;
}

/* The manifest lists these small files as well, so that checksums cover every byte of the
 * folder. */
static int write_json(struct folder_commit *commit, const char *name, const json_t *tree)
{
    AUTO_FREE char *text = tree ? json_text_indented(tree) : NULL;
    if (!text)
        return error_set(commit->error, -ENOMEM, "no memory for %s", name);
    int status = write_file(commit, name, text, strlen(text));
    if (status == 0 && manifest_add_file(&commit->manifest, name, text, strlen(text)) != 0)
        status = error_set(commit->error, -ENOMEM, "no memory to commit a checkpoint");
    return status;
}

/* Build the index that Hugging Face's loaders read first: the file of each parameter. */
static json_t *weight_index(const struct manifest *manifest)
{
    AUTO_JSON json_t *map = json_object();
    uint64_t total = 0;
    for (size_t i = 0; i < manifest->tensor_count; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (tensor->role != MANIFEST_PARAMETER)
            continue;
        total += tensor->size_bytes;
        if (json_object_set_new(map, tensor->name, json_string(tensor->file)) != 0)
            return NULL;
    }
    return json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map",
                     map);
}

static int write_manifest(struct folder_commit *commit, char ret_sha256[65])
{
    struct bytes text = {0};
    int status = manifest_text(&commit->manifest, &text);
    if (status != 0)
        return fail(commit, status, "encode", MANIFEST_NAME);
    status = write_file(commit, MANIFEST_NAME, text.data, text.size_bytes);
    if (status == 0)
        manifest_sha256(text.data, text.size_bytes, ret_sha256);
    bytes_done(&text);
    return status;
}

static int write_files(struct folder_commit *commit, const json_t *config, char ret_sha256[65])
{
    AUTO_JSON json_t *index = weight_index(&commit->manifest);
    int status = write_json(commit, INDEX_NAME, index);
    if (status == 0)
        status = write_json(commit, CONFIG_NAME, config);
    if (status == 0)
        status = write_manifest(commit, ret_sha256);
    if (status != 0)
        return status;
    status = commit->io->sync_directory(commit->context, commit->part);
    return status == 0 ? 0 : fail(commit, status, "sync the folder", commit->part);
}

/* Remove the files, best effort; checkpoint_retain() sweeps the rest. */
static void abandon(struct folder_commit *commit)
{
    char path[FOLDER_FILE_SIZE];
    static const char *const ours[] = {MANIFEST_NAME, CONFIG_NAME, INDEX_NAME};
    int ignored;
    for (size_t i = 0; i < ARRAY_COUNT(ours); i++) {
        folder_file_path(commit->part, ours[i], path);
        ignored = commit->io->unlink(commit->context, path);
    }
    for (size_t i = 0; i < commit->manifest.file_count; i++) {
        folder_file_path(commit->part, commit->manifest.files[i].name, path);
        ignored = commit->io->unlink(commit->context, path);
    }
    ignored = commit->io->unlink(commit->context, commit->part);
    (void)ignored;
}

static int carry_out(struct folder_commit *commit, const char *folder, const json_t *config,
                     char ret_sha256[65])
{
    int status = check_folder(commit);
    if (status == 0)
        status = write_files(commit, config, ret_sha256);
    if (status == 0 && !commit->node) {
        status = commit->io->rename(commit->context, commit->part, commit->path);
        if (status != 0)
            fail(commit, status, "rename to the final name", commit->part);
    }
    if (status != 0)
        abandon(commit);
    if (status != 0 || commit->node)
        return status;
    status = commit->io->sync_directory(commit->context, folder);
    return status == 0 ? 0 : fail(commit, status, "sync the folder", folder);
}

/* Make a shallow copy with room for the two small files. */
static int borrow_manifest(struct folder_commit *commit, const struct manifest *manifest)
{
    commit->manifest = *manifest;
    commit->manifest.files = calloc(manifest->file_count + 2, sizeof(*manifest->files));
    if (!commit->manifest.files)
        return error_set(commit->error, -ENOMEM, "no memory to commit a checkpoint");
    if (manifest->file_count > 0)
        memcpy(commit->manifest.files, manifest->files,
               manifest->file_count * sizeof(*manifest->files));
    return 0;
}

static int run(struct folder_commit *commit, const char *folder, const struct manifest *manifest,
               const json_t *config, char ret_sha256[65])
{
    assert(config);
    if (strlen(folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(commit->error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    if (!manifest_is_sealed(manifest))
        return error_set(commit->error, -EINVAL, "the manifest of step %" PRIu64 " is not sealed",
                         manifest->step);
    checkpoint_part_path(folder, manifest->step, manifest->generation, commit->part);
    checkpoint_path(folder, manifest->step, commit->path);
    int status = borrow_manifest(commit, manifest);
    if (status != 0)
        return status;
    char sha256[65];
    status = commit->io->open(1, NULL, 0, &commit->context, commit->error);
    if (status == 0) {
        status = carry_out(commit, folder, config, sha256);
        commit->io->close(commit->context);
    }
    if (status == 0)
        memcpy(ret_sha256, sha256, sizeof(sha256));
    for (size_t i = manifest->file_count; i < commit->manifest.file_count; i++)
        free(commit->manifest.files[i].chunk_crcs);
    free(commit->manifest.files);
    return status;
}

int folder_commit(const struct io *io, const char *folder, const struct manifest *manifest,
                  const json_t *config, char ret_path[1024], char ret_sha256[65],
                  struct error *error)
{
    struct folder_commit commit = {.io = io, .error = error};
    int status = run(&commit, folder, manifest, config, ret_sha256);
    if (status == 0)
        memcpy(ret_path, commit.path, sizeof(commit.path));
    return status;
}

int folder_commit_copies(const struct checkpoint_local *local, const struct manifest *manifest,
                         const json_t *config, char ret_sha256[65], struct error *error)
{
    struct folder_commit commit = {.io = local->io, .node = local->node, .error = error};
    return run(&commit, local->folder, manifest, config, ret_sha256);
}
