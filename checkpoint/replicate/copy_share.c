/*
 * Copy a share to this node long after its checkpoint was committed, because a node with a copy was
 * lost, or because one node fetched the checkpoint from the object store.
 *
 * Invariants: a folder with its final name is complete at every moment, because each file enters it
 * by a rename after its checks and its sync. Of the existing files only those of a wrong size are
 * replaced.
 */
#include "checkpoint/replicate/copy_share.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/format/folder.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/read/reader_copies.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_place.h"
#include "checkpoint/replicate/receive.h"

struct copying {
    const struct checkpoint_local *local;
    const char *writer;
    char folder[FOLDER_PATH_SIZE], way[FOLDER_PATH_SIZE]; /* the final folder, and the folder for
                                                             receiving */
    bool has_folder;                                      /* this node has a part of the
                                                             checkpoint */
    struct manifest manifest;
    struct bytes text; /* of the manifest, if it must be written */
    struct manifest wanted;
    struct error *error;
};

static int fail(const struct copying *copying, int code, const char *action, const char *path)
{
    return error_set(copying->error, code, "cannot %s %s: %s", action, path, strerror(-code));
}

static int take_manifest(struct copying *copying, const char *sha256)
{
    const struct checkpoint_local *local = copying->local;
    struct error why = {0};
    int status = manifest_load(copying->folder, sha256, &copying->manifest, &why);
    copying->has_folder = status == 0;
    if (status == 0)
        return 0;
    if (!checkpoint_is_lost(copying->folder, status) && status != -ENOENT)
        return error_set(copying->error, status, "%s", why.text); /* the checkpoint is not known to
                                                                     be bad */
    if (access(copying->folder, F_OK) == 0)
        return error_set(copying->error, -EEXIST,
                         "%s is no part of this checkpoint: %s; move it away", copying->folder,
                         why.text);
    return checkpoint_manifest_elsewhere(local->remote, local->node,
                                         strrchr(copying->folder, '/') + 1, sha256,
                                         &copying->manifest, &copying->text, copying->error);
}

static bool is_here(const struct copying *copying, const struct manifest_file *file)
{
    char path[FOLDER_FILE_SIZE];
    struct stat status;
    folder_file_path(copying->folder, file->name, path);
    return stat(path, &status) == 0 && (uint64_t)status.st_size == file->size_bytes;
}

static bool is_wanted(const struct copying *copying, const struct manifest_file *file)
{
    if (file->node_count == 0)
        return !copying->has_folder;
    return strcmp(file->nodes[0], copying->writer) == 0 &&
           !(copying->has_folder && is_here(copying, file));
}

/* Checksums and names are borrowed from the manifest; its tensors identify the files. */
static int list_wanted(struct copying *copying)
{
    const struct manifest *manifest = &copying->manifest;
    struct manifest *wanted = &copying->wanted;
    *wanted = (struct manifest){.step = manifest->step,
                                .generation = manifest->generation,
                                .tensors = manifest->tensors,
                                .tensor_count = manifest->tensor_count};
    wanted->files = calloc(manifest->file_count + 1, sizeof(*wanted->files));
    if (!wanted->files)
        return error_set(copying->error, -ENOMEM, "no memory to copy a share of a checkpoint");
    for (size_t i = 0; i < manifest->file_count; i++)
        if (is_wanted(copying, &manifest->files[i]))
            wanted->files[wanted->file_count++] = manifest->files[i];
    return 0;
}

/* Return a file of the share that lists nodes; all files of a share are on the same nodes. */
static const struct manifest_file *sample_file(const struct copying *copying)
{
    for (size_t i = 0; i < copying->wanted.file_count; i++)
        if (copying->wanted.files[i].node_count > 0)
            return &copying->wanted.files[i];
    return &copying->wanted.files[0];
}

static int receive(struct copying *copying)
{
    const struct checkpoint_local *local = copying->local;
    const char *from, *name = strrchr(copying->folder, '/') + 1;
    int status = error_set(copying->error, -EHOSTUNREACH, "no node has what %s wrote of %s",
                           copying->writer, name);
    for (unsigned i = 0; (from = checkpoint_copy_at(sample_file(copying), local->remote, i)); i++) {
        if (strcmp(from, local->node) == 0)
            continue;
        error_clear(copying->error);
        status = checkpoint_receive_files(local, from, name, copying->way, &copying->wanted,
                                          copying->error);
        if (status != -ENOENT && status != -EHOSTUNREACH && status != -EBADMSG && status != -EIO)
            return status;
    }
    return status;
}

/* ---- final names ---- */

static int move_files(const struct copying *copying, struct io_context *context)
{
    const struct io *io = copying->local->io;
    for (size_t i = 0; i < copying->wanted.file_count; i++) {
        char from[FOLDER_FILE_SIZE], to[FOLDER_FILE_SIZE];
        folder_file_path(copying->way, copying->wanted.files[i].name, from);
        folder_file_path(copying->folder, copying->wanted.files[i].name, to);
        int status = io->unlink(context, to); /* a file of a wrong size */
        if (status == 0 || status == -ENOENT)
            status = io->rename(context, from, to);
        if (status != 0)
            return fail(copying, status, "give its final name to", from);
    }
    int status = io->sync_directory(context, copying->folder);
    if (status != 0)
        return fail(copying, status, "sync the folder", copying->folder);
    status = io->unlink(context, copying->way);
    return status == 0 || status == -ENOENT ? 0 : fail(copying, status, "remove", copying->way);
}

static int move_folder(const struct copying *copying, struct io_context *context)
{
    const struct io *io = copying->local->io;
    int status = io->rename(context, copying->way, copying->folder);
    if (status == 0)
        status = io->sync_directory(context, copying->local->folder);
    return status == 0 ? 0 : fail(copying, status, "give its final name to", copying->way);
}

static int move(const struct copying *copying)
{
    struct io_context *context;
    int status = copying->has_folder ? 0
                                     : checkpoint_write_manifest(copying->local, copying->way,
                                                                 &copying->text, copying->error);
    if (status == 0)
        status = copying->local->io->open(1, NULL, 0, &context, copying->error);
    if (status != 0)
        return status;
    status = copying->has_folder ? move_files(copying, context) : move_folder(copying, context);
    copying->local->io->close(context);
    return status;
}

int checkpoint_copy_share(const struct checkpoint_local *local, const char *manifest_sha256,
                          const char *writer, struct error *error)
{
    struct error ours = {0};
    struct copying copying = {.local = local, .writer = writer, .error = &ours};
    int status = 0;
    if (strlen(local->folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", local->folder);
    checkpoint_path(local->folder, local->step, copying.folder);
    folder_copy_path(local->folder, local->step, copying.way);
    status = take_manifest(&copying, manifest_sha256);
    if (status == 0)
        status = list_wanted(&copying);
    if (status == 0 && copying.wanted.file_count > 0) {
        status = receive(&copying);
        if (status == 0)
            status = move(&copying);
    }
    free(copying.wanted.files);
    manifest_done(&copying.manifest);
    bytes_done(&copying.text);
    if (status != 0 && error)
        *error = ours;
    return status;
}
