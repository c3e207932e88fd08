#include "checkpoint/write/writable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/size_words.h"
#include "checkpoint/format/folder.h"

#define TRIAL_BYTES 4096

/* Sync as well: a disk may refuse a write only at the sync. */
static int write_a_little(int descriptor)
{
    static const char trial[TRIAL_BYTES];
    ssize_t written = write(descriptor, trial, sizeof(trial));
    if (written >= 0 && written < TRIAL_BYTES)
        return -ENOSPC;
    return written < 0 || fsync(descriptor) != 0 ? -errno : 0;
}

static int try_to_write(const char *folder, struct error *error)
{
    char path[FOLDER_FILE_SIZE];
    folder_file_path(folder, "trial-XXXXXX", path);
    AUTO_CLOSE int descriptor = mkostemp(path, O_CLOEXEC);
    if (descriptor < 0)
        return error_set(error, -errno, "writing to %s: %s", folder, strerror(errno));
    unlink(path);
    int status = write_a_little(descriptor);
    return status != 0 ? error_set(error, status, "writing to %s: %s", folder, strerror(-status))
                       : 0;
}

/* If the file system does not report its free space, only the first checkpoint shows whether it
 * fits. */
static int look_for_room(const char *folder, uint64_t size_bytes, struct error *error)
{
    struct statvfs disk;
    char needed[SIZE_WORDS_SIZE], there[SIZE_WORDS_SIZE];
    if (statvfs(folder, &disk) != 0 || disk.f_blocks == 0)
        return 0;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (free_bytes >= size_bytes)
        return 0;
    return error_set(error, -ENOSPC, "%s has %s left, and a checkpoint takes up to %s", folder,
                     size_words(free_bytes, there), size_words(size_bytes, needed));
}

int checkpoint_writable(const char *folder, uint64_t size_bytes, struct error *error)
{
    char nearest[FOLDER_PATH_SIZE];
    if (strlen(folder) >= sizeof(nearest))
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    folder_nearest(folder, nearest);
    int status = try_to_write(nearest, error);
    return status != 0 ? status : look_for_room(nearest, size_bytes, error);
}
