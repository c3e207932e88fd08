/*
 * Commit where a checkpoint of the same step exists. The existing one is kept only if it has the
 * same state and every byte of it is good: a run that goes back because its newest checkpoint is
 * damaged writes that very step again, and must not keep the damaged one.
 */
#include "checkpoint/write/folder_compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/retain.h"

static int read_sha256(const char *path, char ret_sha256[65], struct error *error)
{
    char file[FOLDER_FILE_SIZE];
    struct bytes text = {0};
    folder_file_path(path, MANIFEST_NAME, file);
    int status = file_read(file, MANIFEST_BYTES_MAX, &text, error);
    if (status == 0)
        manifest_sha256(text.data, text.size_bytes, ret_sha256);
    bytes_done(&text);
    return status;
}

/* Return 0 if the checkpoint is good and has the same state. */
static int examine(const char *path, const struct manifest *mine, struct error *error)
{
    struct checkpoint_reader *reader;
    int status = checkpoint_open(path, &reader, error);
    if (status != 0)
        return status;
    if (hash128_equal(checkpoint_manifest(reader)->state_digest, mine->state_digest))
        status = checkpoint_verify(reader, NULL, NULL, error);
    else
        status = error_set(error, -EEXIST,
                           "%s is there already and holds another state; move it away", path);
    checkpoint_close(reader);
    return status;
}

static int set_aside(const char *folder, const char *path, struct error *error)
{
    char aside[FOLDER_FILE_SIZE];
    snprintf(aside, sizeof(aside), "%s.damaged", path);
    int status = folder_remove(aside, error);
    if (status != 0)
        return status;
    if (rename(path, aside) != 0) {
        int code = -errno;
        return error_set(error, code, "cannot rename %s, which is damaged: %s", path,
                         strerror(-code));
    }
    return file_sync_directory(folder, error);
}

int folder_compare(const char *folder, const struct manifest *manifest, char ret_path[1024],
                   char ret_sha256[65], struct error *error)
{
    char path[FOLDER_PATH_SIZE];
    struct stat found;
    struct error damage = {0};
    if (strlen(folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    checkpoint_path(folder, manifest->step, path);
    if (lstat(path, &found) != 0 && errno == ENOENT)
        return FOLDER_COMPARE_ABSENT;
    int status = examine(path, manifest, &damage);
    if (status == 0)
        status = read_sha256(path, ret_sha256, &damage);
    if (status == 0) {
        memcpy(ret_path, path, sizeof(path));
        return FOLDER_COMPARE_STANDS;
    }
    bool cannot_be_read = status == -EIO; /* keep it aside: it may become readable again */
    if (!checkpoint_is_lost(path, status) && !cannot_be_read)
        return error_set(error, status, "%s", damage.text);
    log_warning("%s is damaged; it is set aside and written anew: %s", path, damage.text);
    status = set_aside(folder, path, error);
    return status != 0 ? status : FOLDER_COMPARE_ABSENT;
}
