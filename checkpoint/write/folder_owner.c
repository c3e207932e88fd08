#include "checkpoint/write/folder_owner.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/write/io_tuning.h"
#include "checkpoint/write/retain.h"

#define OWNER_BYTES_MAX 4096

int checkpoint_owner_write(const char *folder, const struct checkpoint_owner *owner,
                           struct error *error)
{
    char path[FOLDER_FILE_SIZE];
    AUTO_JSON json_t *tree =
        json_pack("{s:s, s:s, s:s, s:I}", "cluster", owner->cluster, "job", owner->job,
                  "submission", owner->submission, "created", (json_int_t)owner->created);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    folder_file_path(folder, CHECKPOINT_OWNER_NAME, path);
    if (access(path, F_OK) == 0)
        return 0;
    if (!text)
        return error_set(error, -ENOMEM, "no memory for %s", path);
    return file_replace(path, text, strlen(text), 0644, error);
}

int checkpoint_owner_read(const char *folder, struct checkpoint_owner *ret_owner,
                          struct error *error)
{
    char path[FOLDER_FILE_SIZE];
    CLEANUP(bytes_done) struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    struct checkpoint_owner owner = {0};
    uint64_t created = 0;

    folder_file_path(folder, CHECKPOINT_OWNER_NAME, path);
    int status = file_read(path, OWNER_BYTES_MAX, &text, error);
    if (status == 0)
        status = json_parse((const char *)text.data, text.size_bytes, path, &tree, error);
    if (status == 0)
        status = json_get_text(tree, "cluster", owner.cluster, sizeof(owner.cluster), error);
    if (status == 0)
        status = json_get_text(tree, "job", owner.job, sizeof(owner.job), error);
    if (status == 0)
        status =
            json_get_text(tree, "submission", owner.submission, sizeof(owner.submission), error);
    if (status == 0)
        status = json_get_u64(tree, "created", INT64_MAX, &created, error);
    if (status < 0)
        return status;
    owner.created = (int64_t)created;
    *ret_owner = owner;
    return 0;
}

/* Remove a complete checkpoint by way of .gone, as retention does: after a crash it is complete
 * or gone. */
static int purge_entry(const char *folder, const char *name, size_t *count, struct error *error)
{
    char path[FOLDER_FILE_SIZE];
    uint64_t step;
    enum folder_kind kind = folder_classify(name, &step);
    int status = 0;

    folder_file_path(folder, name, path);
    if (kind == FOLDER_COMPLETE) {
        status = folder_remove_step(folder, step, error);
        *count += status == 0;
    } else if (kind != FOLDER_OTHER) {
        status = folder_remove(path, error);
    }
    return status;
}

static int purge_entries(DIR *directory, const char *folder, size_t *count, struct error *error)
{
    const struct dirent *entry;
    int status = 0;

    while (status == 0 && (entry = readdir(directory)))
        status = purge_entry(folder, entry->d_name, count, error);
    return status;
}

static int remove_notes(const char *folder, struct error *error)
{
    static const char *const names[] = {CHECKPOINT_OWNER_NAME, IO_TUNING_FILE_NAME,
                                        IO_TUNING_FILE_NAME ".part"}; /* left by a crash */
    char path[FOLDER_FILE_SIZE];

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        folder_file_path(folder, names[i], path);
        if (unlink(path) != 0 && errno != ENOENT)
            return error_set(error, -errno, "removing %s: %s", path, strerror(errno));
    }
    return 0;
}

int checkpoint_purge(const char *folder, size_t *ret_count, struct error *error)
{
    DIR *directory = opendir(folder);

    *ret_count = 0;
    if (!directory)
        return error_set(error, -errno, "%s: %s", folder, strerror(errno));
    int status = purge_entries(directory, folder, ret_count, error);
    closedir(directory);
    if (status == 0)
        status = remove_notes(folder, error);
    if (status == 0 && rmdir(folder) != 0)
        status = error_set(error, -errno, "removing %s: %s", folder, strerror(errno));
    return status;
}
