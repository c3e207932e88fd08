#include "checkpoint/format/folder_marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"

static int fail(struct error *error, const char *path)
{
    int status = -errno;
    return error_set(error, status, "%s: %s", path, strerror(-status));
}

static bool is_marked(const char *path, const char *name)
{
    char mark[FOLDER_FILE_SIZE];
    folder_file_path(path, name, mark);
    return access(mark, F_OK) == 0;
}

bool checkpoint_pinned(const char *path)
{
    return is_marked(path, CHECKPOINT_PIN_NAME);
}

bool checkpoint_verified(const char *path)
{
    return is_marked(path, CHECKPOINT_VERIFIED_NAME);
}

uint64_t checkpoint_verified_ns(const char *path)
{
    char mark[FOLDER_FILE_SIZE];
    struct stat status;
    folder_file_path(path, CHECKPOINT_VERIFIED_NAME, mark);
    return stat(mark, &status) == 0
               ? (uint64_t)status.st_mtim.tv_sec * NS_PER_SECOND + (uint64_t)status.st_mtim.tv_nsec
               : 0;
}

bool checkpoint_damaged(const char *path)
{
    return is_marked(path, CHECKPOINT_DAMAGED_NAME);
}

struct checkpoint_marks checkpoint_marks_read(const char *path)
{
    return (struct checkpoint_marks){.pinned = checkpoint_pinned(path),
                                     .verified = checkpoint_verified(path)};
}

enum keep_reason keep_reason(struct keep_rule *rule, struct checkpoint_marks marks)
{
    bool verified = !rule->verified_seen && marks.verified;
    rule->verified_seen = rule->verified_seen || verified;
    if (marks.pinned)
        return KEEP_SPARED;
    if (rule->kept < MAX(rule->keep, 1u)) {
        rule->kept++;
        return KEEP_NUMBERED;
    }
    return verified ? KEEP_SPARED : KEEP_GOES;
}

/* Retention may have renamed the folder just before. */
static int check_still_there(const char *path, const char *name, struct error *error)
{
    if (is_marked(path, name))
        return 0;
    return error_set(error, -ENOENT, "%s: removed by retention while it was being marked", path);
}

static int mark(const char *path, const char *name, struct error *error)
{
    char file[FOLDER_FILE_SIZE];
    struct manifest manifest;
    int status = manifest_load(path, NULL, &manifest, error);
    if (status != 0)
        return status;
    manifest_done(&manifest);
    folder_file_path(path, name, file);
    /* The file's modification time is the time of the last verification. */
    int descriptor = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0)
        return fail(error, file);
    (void)futimens(descriptor, NULL);
    close(descriptor);
    status = file_sync_directory(path, error);
    return status != 0 ? status : check_still_there(path, name, error);
}

int checkpoint_pin(const char *path, struct error *error)
{
    return mark(path, CHECKPOINT_PIN_NAME, error);
}

static int unmark(const char *path, const char *name, struct error *error)
{
    char file[FOLDER_FILE_SIZE];
    folder_file_path(path, name, file);
    if (unlink(file) != 0)
        return errno == ENOENT ? 0 : fail(error, file);
    return file_sync_directory(path, error);
}

int checkpoint_mark_verified(const char *path, struct error *error)
{
    int status = unmark(path, CHECKPOINT_DAMAGED_NAME, error); /* an operator has repaired it */
    return status == 0 ? mark(path, CHECKPOINT_VERIFIED_NAME, error) : status;
}

int checkpoint_mark_damaged(const char *path, struct error *error)
{
    int status = unmark(path, CHECKPOINT_VERIFIED_NAME, error);
    return status == 0 ? mark(path, CHECKPOINT_DAMAGED_NAME, error) : status;
}

int checkpoint_unpin(const char *path, struct error *error)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return fail(error, path);
    return unmark(path, CHECKPOINT_PIN_NAME, error);
}

/* Split a checkpoint's path into the job's folder and the step. */
static int split(const char *path, char ret_folder[FOLDER_PATH_SIZE], uint64_t *ret_step,
                 struct error *error)
{
    const char *slash = strrchr(path, '/');
    if (strlen(path) > CHECKPOINT_FOLDER_MAX)
        return error_set(error, -ENAMETOOLONG, "%.64s...: the path is too long", path);
    if (folder_classify(!slash ? path : slash + 1, ret_step) != FOLDER_COMPLETE)
        return error_set(error, -EINVAL, "%s: not called step-<digits>, as checkpoints are", path);
    snprintf(ret_folder, FOLDER_PATH_SIZE, "%.*s", !slash ? 1 : (int)MAX(slash - path, 1l),
             !slash ? "." : path);
    return 0;
}

int checkpoint_removable(const char *path, bool even_newest, struct error *error)
{
    char folder[FOLDER_PATH_SIZE];
    struct stat found;
    AUTO_FREE uint64_t *steps = NULL;
    size_t count = 0;
    uint64_t step;
    int status = split(path, folder, &step, error);
    if (status != 0)
        return status;
    if (stat(path, &found) != 0)
        return fail(error, path);
    if (checkpoint_pinned(path))
        return error_set(error, -EPERM, "%s is pinned", path);
    status = checkpoint_list(folder, &steps, &count, error);
    if (status != 0)
        return status;
    if (!even_newest && count > 0 && steps[0] == step)
        return error_set(error, -EBUSY,
                         "%s is the newest checkpoint, from which the job would go on", path);
    return 0;
}

int checkpoint_remove(const char *path, bool even_newest, struct error *error)
{
    char folder[FOLDER_PATH_SIZE];
    uint64_t step;
    int status = checkpoint_removable(path, even_newest, error);
    if (status == 0)
        status = split(path, folder, &step, error);
    return status != 0 ? status : folder_remove_step(folder, step, error);
}
