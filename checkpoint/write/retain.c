/*
 * Retention: remove expired checkpoints of a job.
 *
 * A folder is renamed to .gone, durably, before the first of its files is removed, so after a crash
 * a checkpoint is either complete or gone. Parts are garbage once a checkpoint of the same or a
 * later step is complete: a worker that still writes to one is too late.
 */
#include "checkpoint/write/retain.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/read/reader.h"

static int fail(struct error *error, const char *path)
{
    int status = -errno;
    return error_set(error, status, "removing %s: %s", path, strerror(-status));
}

static bool is_garbage(const char *name, uint64_t oldest, uint64_t committed)
{
    uint64_t step;
    enum folder_kind kind = folder_classify(name, &step);
    bool is_part = kind == FOLDER_PART || kind == FOLDER_FETCH;
    return kind == FOLDER_GONE || (is_part && step <= committed) ||
           (kind == FOLDER_DAMAGED && step < oldest);
}

static int sweep(const char *folder, uint64_t oldest, uint64_t committed, struct error *error)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return fail(error, folder);
    int status = 0;
    const struct dirent *entry;
    while (status == 0 && (entry = readdir(directory))) {
        char path[FOLDER_PATH_SIZE + sizeof(entry->d_name)];
        if (!is_garbage(entry->d_name, oldest, committed))
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        status = folder_remove(path, error);
    }
    closedir(directory);
    return status;
}

static bool is_recorded(const struct checkpoint_sweep *sweep, uint64_t step)
{
    for (size_t i = 0; i < sweep->step_count; i++) {
        if (sweep->steps[i] == step)
            return true;
    }
    return false;
}

/* Return G of step-N.gG.part. */
static uint64_t part_generation(const char *name)
{
    return strtoull(strstr(name, ".g") + 2, NULL, 10);
}

/* Remove a part by way of .gone: a late commit finds the part whole or not at all. */
static int remove_part(const char *folder, const char *name, struct error *error)
{
    char path[FOLDER_PATH_SIZE + 256], gone[FOLDER_PATH_SIZE + 256];
    size_t length = strlen(name) - strlen(".part");
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(gone, sizeof(gone), "%s/%.*s.gone", folder, (int)length, name);
    int status = folder_remove(gone, error);
    if (status == 0 && rename(path, gone) != 0)
        return errno == ENOENT ? 0 : fail(error, path);
    return status == 0 ? folder_remove(gone, error) : status;
}

int checkpoint_sweep_parts(const char *folder, uint64_t generation, struct error *error)
{
    if (strlen(folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    DIR *directory = opendir(folder);
    if (!directory)
        return errno == ENOENT ? 0 : fail(error, folder);
    int status = 0;
    const struct dirent *entry;
    uint64_t step;
    while (status == 0 && (entry = readdir(directory)))
        if (folder_classify(entry->d_name, &step) == FOLDER_PART &&
            part_generation(entry->d_name) < generation)
            status = remove_part(folder, entry->d_name, error);
    closedir(directory);
    return status;
}

static int sweep_entry(const struct checkpoint_sweep *sweep, const char *name, struct error *error)
{
    char path[FOLDER_PATH_SIZE + 256];
    uint64_t step;
    enum folder_kind kind = folder_classify(name, &step);
    snprintf(path, sizeof(path), "%s/%s", sweep->folder, name);
    if (kind == FOLDER_COMPLETE && step < sweep->step && !is_recorded(sweep, step) &&
        !checkpoint_pinned(path))
        return folder_remove_step(sweep->folder, step, error);
    if (kind == FOLDER_GONE || (kind == FOLDER_DAMAGED && step < sweep->step) ||
        (kind == FOLDER_FETCH && step <= sweep->step) ||
        (kind == FOLDER_COPY && !is_recorded(sweep, step)) ||
        (kind == FOLDER_PART && part_generation(name) < sweep->generation))
        return folder_remove(path, error);
    return 0;
}

int checkpoint_sweep(const struct checkpoint_sweep *sweep, struct error *error)
{
    if (sweep->step_count == 0)
        return checkpoint_sweep_parts(sweep->folder, sweep->generation, error);
    if (strlen(sweep->folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", sweep->folder);
    DIR *directory = opendir(sweep->folder);
    if (!directory)
        return errno == ENOENT ? 0 : fail(error, sweep->folder);
    int status = 0;
    const struct dirent *entry;
    while (status == 0 && (entry = readdir(directory)))
        status = sweep_entry(sweep, entry->d_name, error);
    closedir(directory);
    return status;
}

int checkpoint_abandon(const char *folder, uint64_t step, uint64_t generation, struct error *error)
{
    char path[FOLDER_PATH_SIZE];
    if (strlen(folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    checkpoint_part_path(folder, step, generation, path);
    return folder_remove(path, error);
}

/* @steps: newest first; *ret_oldest: the oldest step that stays. */
static int remove_old(const char *folder, const uint64_t *steps, size_t count,
                      struct keep_rule *rule, uint64_t committed, uint64_t spared,
                      uint64_t *ret_oldest, struct error *error)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < count; i++) {
        char path[FOLDER_PATH_SIZE];
        checkpoint_path(folder, steps[i], path);
        if (steps[i] > committed || keep_reason(rule, checkpoint_marks_read(path)) != KEEP_GOES ||
            steps[i] == spared)
            *ret_oldest = steps[i];
        else
            status = folder_remove_step(folder, steps[i], error);
    }
    return status;
}

int checkpoint_retain(const char *folder, unsigned keep, uint64_t step, uint64_t spared,
                      struct error *error)
{
    AUTO_FREE uint64_t *steps = NULL;
    size_t count = 0;
    if (strlen(folder) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", folder);
    int status = checkpoint_list(folder, &steps, &count, error);
    if (status != 0 || count == 0)
        return status;
    uint64_t oldest = 0;
    struct keep_rule rule = {.keep = keep};
    status = remove_old(folder, steps, count, &rule, step, spared, &oldest, error);
    return status != 0 ? status : sweep(folder, oldest, step, error);
}
