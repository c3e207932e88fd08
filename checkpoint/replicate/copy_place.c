/*
 * The last steps of a checkpoint with copies, on each node: the manifest arrives, and the folder
 * gets its final name.
 *
 * The final name is not a commit, because the folder is one of several. It only means that all
 * files that its manifest places on this node are present and durable.
 */
#include "checkpoint/replicate/copy_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/receive.h"
#include "checkpoint/write/retain.h"

static int fail(struct error *error, int code, const char *action, const char *path)
{
    return error_set(error, code, "cannot %s %s: %s", action, path, strerror(-code));
}

/* ---- the manifest ---- */

/* Check that every file of this node is present, because a restore needs it. */
static int check_files(const struct checkpoint_local *local, const char *directory,
                       const struct manifest *manifest, struct error *error)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        char path[FOLDER_FILE_SIZE];
        struct stat status;
        folder_file_path(directory, file->name, path);
        if (!manifest_file_on(file, local->node))
            continue;
        if (stat(path, &status) != 0)
            return fail(error, -errno, "find", path);
        if ((uint64_t)status.st_size != file->size_bytes)
            return error_set(error, -EBADMSG,
                             "%s has %" PRIu64 " bytes; the manifest says %" PRIu64, path,
                             (uint64_t)status.st_size, file->size_bytes);
    }
    return 0;
}

/* Receive index and config, which are small and in every folder. */
static int receive_small(const struct checkpoint_local *local, const char *from,
                         const struct manifest *manifest, struct error *error)
{
    struct manifest small = {.step = manifest->step, .generation = manifest->generation};
    small.files = calloc(manifest->file_count + 1, sizeof(*small.files));
    if (!small.files)
        return error_set(error, -ENOMEM, "no memory to take over a manifest");
    for (size_t i = 0; i < manifest->file_count; i++) {
        if (manifest->files[i].node_count == 0)
            small.files[small.file_count++] = manifest->files[i]; /* checksums are borrowed */
    }
    int status = checkpoint_receive_share(local, from, &small, error);
    free(small.files);
    return status;
}

int checkpoint_write_manifest(const struct checkpoint_local *local, const char *directory,
                              const struct bytes *text, struct error *error)
{
    char path[FOLDER_FILE_SIZE];
    struct io_context *context;
    uint64_t user;
    folder_file_path(directory, MANIFEST_NAME, path);
    int status = local->io->open(1, NULL, 0, &context, error);
    if (status != 0)
        return status;
    status = local->io->unlink(context, path); /* of an earlier attempt */
    int descriptor =
        status == 0 || status == -ENOENT ? local->io->create(context, path, false) : status;
    status = descriptor < 0
                 ? descriptor
                 : local->io->write(context, descriptor, text->data, text->size_bytes, 0, 0);
    if (status == 0) {
        status = local->io->drain(context, true, &user);
        status = status == 1 ? local->io->sync(context, descriptor) : status;
    }
    int closed = descriptor >= 0 ? local->io->close_file(context, descriptor) : 0;
    status = status == 0 ? closed : status;
    if (status == 0)
        status = local->io->sync_directory(context, directory);
    local->io->close(context);
    return status == 0 ? 0 : fail(error, status, "write", path);
}

static int take_text(const struct checkpoint_local *local, const char *from, const char *directory,
                     const struct bytes *text, const char *sha256, struct error *error)
{
    struct manifest manifest;
    int status = manifest_check(text, MANIFEST_NAME, sha256, &manifest, error);
    if (status != 0)
        return status;
    if (manifest.step != local->step || manifest.generation != local->generation)
        status = error_set(error, -EBADMSG, "the manifest from node %s is of step %" PRIu64, from,
                           manifest.step);
    if (status == 0)
        status = receive_small(local, from, &manifest, error);
    if (status == 0)
        status = check_files(local, directory, &manifest, error);
    if (status == 0)
        status = checkpoint_write_manifest(local, directory, text, error);
    manifest_done(&manifest);
    return status;
}

int checkpoint_take_manifest(const struct checkpoint_local *local, const char *from,
                             const char *sha256, struct error *error)
{
    char directory[FOLDER_PATH_SIZE];
    struct bytes text = {0};
    if (strlen(local->folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", local->folder);
    checkpoint_part_path(local->folder, local->step, local->generation, directory);
    int status = checkpoint_remote_get(local->remote, from, strrchr(directory, '/') + 1,
                                       MANIFEST_NAME, MANIFEST_BYTES_MAX, &text, error);
    if (status == 0)
        status = take_text(local, from, directory, &text, sha256, error);
    bytes_done(&text);
    return status;
}

/* ---- the name ---- */

/* Remove an existing folder if it is damaged or has the same state. A folder that this node's own
 * disk cannot read counts as damaged. Keep it if its content cannot be determined. */
static int make_room(const struct checkpoint_local *local, const char *path, struct hash128 digest,
                     struct error *error)
{
    struct manifest there;
    struct stat found;
    struct error why = {0};
    if (lstat(path, &found) != 0)
        return errno == ENOENT ? 0 : fail(error, -errno, "look at", path);
    int status = manifest_load(path, NULL, &there, &why);
    if (status != 0 && status != -EIO && !checkpoint_is_lost(path, status))
        return error_set(error, status, "%s", why.text);
    bool equal = status != 0 || hash128_equal(there.state_digest, digest);
    if (status == 0)
        manifest_done(&there);
    if (!equal)
        return error_set(error, -EEXIST,
                         "%s is there already and holds another state; move it away", path);
    log_info("%s is written anew", path);
    return folder_remove_step(local->folder, local->step, error);
}

int checkpoint_place(const struct checkpoint_local *local, struct hash128 digest,
                     char ret_path[1024], struct error *error)
{
    char part[FOLDER_PATH_SIZE], path[FOLDER_PATH_SIZE];
    struct io_context *context;
    if (strlen(local->folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", local->folder);
    checkpoint_part_path(local->folder, local->step, local->generation, part);
    checkpoint_path(local->folder, local->step, path);
    int status = make_room(local, path, digest, error);
    if (status == 0)
        status = local->io->open(1, NULL, 0, &context, error);
    if (status != 0)
        return status;
    status = local->io->rename(context, part, path);
    if (status == 0)
        status = local->io->sync_directory(context, local->folder);
    local->io->close(context);
    if (status != 0)
        return fail(error, status, "give its final name to", part);
    memcpy(ret_path, path, sizeof(path));
    return 0;
}
