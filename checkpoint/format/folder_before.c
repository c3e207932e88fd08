#include "checkpoint/format/folder_before.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "checkpoint/format/folder_marks.h"

/* Find the largest step below @limit that has a final name; 0: none. */
static int newest_name_before(const char *folder, uint64_t limit, uint64_t *ret_step)
{
    const struct dirent *entry;
    DIR *directory = opendir(folder);
    if (!directory)
        return -errno;
    *ret_step = 0;
    while ((entry = readdir(directory))) {
        uint64_t step;
        if (folder_classify(entry->d_name, &step) == FOLDER_COMPLETE && step < limit)
            *ret_step = MAX(*ret_step, step);
    }
    closedir(directory);
    return 0;
}

int folder_newest_before(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE],
                         struct manifest *ret_manifest)
{
    for (uint64_t limit = step;;) {
        int status = newest_name_before(folder, limit, &limit);
        if (status != 0 || limit == 0)
            return status != 0 ? status : -ENOENT;
        checkpoint_path(folder, limit, ret_path);
        if (manifest_load(ret_path, NULL, ret_manifest, NULL) == 0)
            return 0;
    }
}

/* Return whether a checkpoint between @after and @before is being written or was left
 * unfinished. */
static bool has_part_between(const char *folder, uint64_t after, uint64_t before)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return false;
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(directory))) {
        uint64_t step;
        found =
            folder_classify(entry->d_name, &step) == FOLDER_PART && step > after && step < before;
    }
    closedir(directory);
    return found;
}

static bool file_status(const char *directory, const char *name, struct stat *ret_status)
{
    char path[FOLDER_FILE_SIZE];
    folder_file_path(directory, name, path);
    return stat(path, ret_status) == 0;
}

static bool share_a_file(const char *path, const struct manifest *manifest, const char *other)
{
    struct stat file, twin;
    for (size_t i = 0; i < manifest->file_count; i++) {
        const char *name = manifest->files[i].name;
        if (file_status(path, name, &file) && file.st_nlink > 1 &&
            file_status(other, name, &twin) && file.st_ino == twin.st_ino &&
            file.st_dev == twin.st_dev)
            return true;
    }
    return false;
}

/* A checkpoint that was still being written when damage was found gets its mark only when it is
 * read back itself. Until then its hard links reveal the damage. */
static bool shares_with_damaged(const char *folder, const char *path,
                                const struct manifest *manifest)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return false;
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(directory))) {
        char other[FOLDER_PATH_SIZE];
        uint64_t step;
        if (folder_classify(entry->d_name, &step) != FOLDER_COMPLETE)
            continue;
        checkpoint_path(folder, step, other);
        found = checkpoint_damaged(other) && share_a_file(path, manifest, other);
    }
    closedir(directory);
    return found;
}

int folder_shared_before(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE],
                         struct manifest *ret_manifest)
{
    int status = folder_newest_before(folder, step, ret_path, ret_manifest);
    if (status != 0)
        return status;
    uint64_t newest = ret_manifest->step;
    manifest_done(ret_manifest);
    /* The last checkpoint of a generation may begin while the coordinator commits the one before,
     * which shares files with the checkpoint that would be chosen below. */
    if (has_part_between(folder, newest, step))
        return -ENOENT;
    status = folder_newest_before(folder, newest, ret_path, ret_manifest);
    if (status == 0 &&
        (checkpoint_damaged(ret_path) || shares_with_damaged(folder, ret_path, ret_manifest))) {
        manifest_done(ret_manifest);
        status = -ENOENT;
    }
    return status;
}

void folder_mark_sharing(const char *folder, const char *name, dev_t device, ino_t inode)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    const struct dirent *entry;
    while ((entry = readdir(directory))) {
        char path[FOLDER_PATH_SIZE];
        struct error ignored = {0};
        struct stat file;
        uint64_t step;
        if (folder_classify(entry->d_name, &step) != FOLDER_COMPLETE)
            continue;
        checkpoint_path(folder, step, path);
        if (file_status(path, name, &file) && file.st_dev == device && file.st_ino == inode)
            (void)!checkpoint_mark_damaged(path, &ignored);
    }
    closedir(directory);
}
