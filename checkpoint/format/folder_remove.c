#include "checkpoint/format/folder_remove.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"

static int fail(struct error *error, const char *path)
{
    int status = -errno;
    return error_set(error, status, "removing %s: %s", path, strerror(-status));
}

/* Checkpoint folders are flat. A folder inside one is foreign and makes rmdir fail. */
int folder_remove(const char *path, struct error *error)
{
    DIR *directory = opendir(path);
    if (!directory)
        return errno == ENOENT ? 0 : fail(error, path);
    int status = 0;
    const struct dirent *entry;
    while (status == 0 && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(directory), entry->d_name, 0) != 0 && errno != ENOENT)
            status = fail(error, path);
    }
    closedir(directory);
    if (status == 0 && rmdir(path) != 0 && errno != ENOENT)
        status = fail(error, path);
    return status;
}

int folder_remove_step(const char *folder, uint64_t step, struct error *error)
{
    char path[FOLDER_PATH_SIZE], gone[FOLDER_FILE_SIZE];
    checkpoint_path(folder, step, path);
    snprintf(gone, sizeof(gone), "%s.gone", path);
    /* A .gone folder left by a crash: the step was written again since, and is to be removed
     * again. */
    int status = folder_remove(gone, error);
    if (status != 0)
        return status;
    if (rename(path, gone) != 0) /* a worker and its firnd may both remove it */
        return errno == ENOENT ? 0 : fail(error, path);
    status = file_sync_directory(folder, error);
    return status != 0 ? status : folder_remove(gone, error);
}
