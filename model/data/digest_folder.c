#include "model/data/digest_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

#define SURVEY_MAX 65536 /* files that one call examines */

struct old_file {
    char name[NAME_MAX + 1];
    struct timespec used;
    uint64_t size_bytes;
};

static int compare_ages(const void *a, const void *b)
{
    const struct old_file *left = a, *right = b;

    if (left->used.tv_sec != right->used.tv_sec)
        return left->used.tv_sec < right->used.tv_sec ? -1 : 1;
    if (left->used.tv_nsec != right->used.tv_nsec)
        return left->used.tv_nsec < right->used.tv_nsec ? -1 : 1;
    return strcmp(left->name, right->name);
}

/* Return whether a file is an entry or the leftover of one from a crash: its name begins with a
 * key. */
static bool is_entry(const char *name)
{
    char digits[HASH128_TEXT_SIZE] = {0};
    struct hash128 key;

    memcpy(digits, name, strnlen(name, sizeof(digits) - 1));
    return hash128_parse(digits, &key);
}

static bool add_file(int folder, const char *name, struct old_file *ret_file)
{
    struct stat status;

    if (!is_entry(name) || fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(status.st_mode))
        return false;
    snprintf(ret_file->name, sizeof(ret_file->name), "%s", name);
    ret_file->used = status.st_mtim;
    ret_file->size_bytes = (uint64_t)status.st_size;
    return true;
}

static size_t list_files(DIR *folder, struct old_file **ret_files)
{
    const struct dirent *entry;
    size_t count = 0, capacity = 0;

    while (count < SURVEY_MAX && (entry = readdir(folder))) {
        if (count == capacity) {
            struct old_file *more =
                reallocarray(*ret_files, MAX(2 * capacity, (size_t)64), sizeof(**ret_files));
            if (!more)
                break;
            *ret_files = more;
            capacity = MAX(2 * capacity, (size_t)64);
        }
        count += add_file(dirfd(folder), entry->d_name, &(*ret_files)[count]);
    }
    return count;
}

/* A process that opens the file between the test and its removal reads the data only for itself. */
static void remove_unless_locked(int folder, const char *name)
{
    int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    close_descriptor(&descriptor);
}

void digest_folder_limit(const char *folder, unsigned count_max, uint64_t bytes_max)
{
    AUTO_FREE struct old_file *files = NULL;
    DIR *opened = opendir(folder);
    uint64_t bytes = 0;

    if (!opened)
        return;
    size_t count = list_files(opened, &files);
    for (size_t i = 0; i < count; i++)
        bytes += files[i].size_bytes;
    if (count > 0)
        qsort(files, count, sizeof(*files), compare_ages);
    for (size_t i = 0; i < count && (count - i > count_max || bytes > bytes_max); i++) {
        remove_unless_locked(dirfd(opened), files[i].name);
        bytes -= files[i].size_bytes;
    }
    closedir(opened);
}
