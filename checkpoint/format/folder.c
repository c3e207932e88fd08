#include "checkpoint/format/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEPS_MAX 100000 /* folders examined per job folder */

/* Callers check the length of paths. A truncated path could only name something that does not
 * exist. */
static void format_path(char *path, size_t path_size, int length)
{
    assert(length >= 0);
    if ((size_t)length >= path_size)
        path[0] = '\0';
}

void checkpoint_path(const char *folder, uint64_t step, char ret_path[1024])
{
    int length = snprintf(ret_path, FOLDER_PATH_SIZE, "%s/step-%010" PRIu64, folder, step);
    format_path(ret_path, FOLDER_PATH_SIZE, length);
}

void checkpoint_part_path(const char *folder, uint64_t step, uint64_t generation,
                          char ret_path[1024])
{
    int length = snprintf(ret_path, FOLDER_PATH_SIZE, "%s/step-%010" PRIu64 ".g%" PRIu64 ".part",
                          folder, step, generation);
    format_path(ret_path, FOLDER_PATH_SIZE, length);
}

void folder_copy_path(const char *folder, uint64_t step, char ret_path[FOLDER_PATH_SIZE])
{
    int length = snprintf(ret_path, FOLDER_PATH_SIZE, "%s/step-%010" PRIu64 ".copy", folder, step);
    format_path(ret_path, FOLDER_PATH_SIZE, length);
}

void folder_file_path(const char *directory, const char *name, char ret_path[FOLDER_FILE_SIZE])
{
    int length = snprintf(ret_path, FOLDER_FILE_SIZE, "%s/%s", directory, name);
    format_path(ret_path, FOLDER_FILE_SIZE, length);
}

void folder_nearest(const char *folder, char ret_nearest[FOLDER_PATH_SIZE])
{
    int length = snprintf(ret_nearest, FOLDER_PATH_SIZE, "%s", folder);
    format_path(ret_nearest, FOLDER_PATH_SIZE, length);
    while (access(ret_nearest, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(ret_nearest, '/');
        if (!slash || slash == ret_nearest) {
            strcpy(ret_nearest, !slash ? "." : "/");
            return;
        }
        *slash = '\0';
    }
}

enum folder_kind folder_classify(const char *name, uint64_t *ret_step)
{
    static const char digits[] = "0123456789";
    if (strncmp(name, "step-", 5) != 0)
        return FOLDER_OTHER;
    size_t length = strspn(name + 5, digits);
    if (length < 10 || length > 19)
        return FOLDER_OTHER;
    *ret_step = strtoull(name + 5, NULL, 10);
    const char *rest = name + 5 + length;
    if (rest[0] == '\0')
        return FOLDER_COMPLETE;
    if (strcmp(rest, ".part") == 0)
        return FOLDER_FETCH;
    if (strcmp(rest, ".copy") == 0)
        return FOLDER_COPY;
    if (strcmp(rest, ".gone") == 0)
        return FOLDER_GONE;
    if (strcmp(rest, ".damaged") == 0)
        return FOLDER_DAMAGED;
    size_t generation = strncmp(rest, ".g", 2) == 0 ? strspn(rest + 2, digits) : 0;
    if (generation == 0)
        return FOLDER_OTHER;
    rest += 2 + generation;
    return strcmp(rest, ".part") == 0   ? FOLDER_PART
           : strcmp(rest, ".gone") == 0 ? FOLDER_GONE
                                        : FOLDER_OTHER;
}

static int compare_newest_first(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

/* Return whether the folder has its final name and a manifest that loads. */
static bool is_complete(const char *folder, uint64_t step)
{
    char path[FOLDER_PATH_SIZE];
    struct manifest manifest;
    checkpoint_path(folder, step, path);
    if (manifest_load(path, NULL, &manifest, NULL) != 0)
        return false;
    bool complete = manifest.step == step;
    manifest_done(&manifest);
    return complete;
}

static int append_step(uint64_t **steps, size_t *count, uint64_t step)
{
    uint64_t *grown = realloc(*steps, (*count + 1) * sizeof(**steps));
    if (!grown)
        return -ENOMEM;
    grown[(*count)++] = step;
    *steps = grown;
    return 0;
}

static int collect(DIR *directory, const char *folder, uint64_t **steps, size_t *count)
{
    int status = 0;
    const struct dirent *entry;
    while (status == 0 && *count < STEPS_MAX && (errno = 0, entry = readdir(directory))) {
        uint64_t step;
        if (folder_classify(entry->d_name, &step) == FOLDER_COMPLETE && is_complete(folder, step))
            status = append_step(steps, count, step);
    }
    return status != 0 ? status : -errno;
}

int checkpoint_list(const char *folder, uint64_t **ret_steps, size_t *ret_count,
                    struct error *error)
{
    uint64_t *steps = NULL;
    size_t count = 0;
    DIR *directory = opendir(folder);
    if (!directory && errno != ENOENT)
        return error_set(error, -errno, "%s: %s", folder, strerror(errno));
    if (directory) {
        int status = collect(directory, folder, &steps, &count);
        closedir(directory);
        if (status != 0) {
            free(steps);
            return error_set(error, status, "listing %s: %s", folder, strerror(-status));
        }
    }
    if (count > 1)
        qsort(steps, count, sizeof(*steps), compare_newest_first);
    *ret_steps = steps;
    *ret_count = count;
    return 0;
}
