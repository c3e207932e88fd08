#include "worker/history.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PATH_SIZE 1280

static int write_lines(const char *part, const struct bytes *text, struct manifest *manifest,
                       struct error *error)
{
    char path[PATH_SIZE];
    int status;

    snprintf(path, sizeof(path), "%s/" HISTORY_NAME, part);
    status = file_replace(path, text->data, text->size_bytes, 0644, error);
    if (!status && manifest_add_file(manifest, HISTORY_NAME, text->data, text->size_bytes)) {
        unlink(path);
        status = error_set(error, -ENOMEM, "no memory to list %s", path);
    }
    return status;
}

int history_save(const char *metrics_path, uint64_t step, const char *part,
                 struct manifest *manifest, struct error *error)
{
    struct bytes text = {0};
    struct stat found;
    int status;

    if (stat(metrics_path, &found))
        return errno == ENOENT ? 0
                               : error_set(error, -errno, "%s: %s", metrics_path, strerror(errno));
    /* It grows while it is read; what comes late is of later steps. */
    status = file_read(metrics_path, 2 * HISTORY_BYTES_MAX, &text, error);
    if (status)
        return status;
    text.size_bytes = metrics_cut(text.data, text.size_bytes, step);
    if (text.size_bytes > HISTORY_BYTES_MAX)
        status = error_set(error, -EFBIG, "%s: more than %zu MiB of lines", metrics_path,
                           HISTORY_BYTES_MAX >> 20);
    else if (text.size_bytes > 0)
        status = write_lines(part, &text, manifest, error);
    bytes_done(&text);
    return status;
}

int history_take(const char *path, const struct manifest *manifest, struct metrics *metrics,
                 struct error *error)
{
    char name[PATH_SIZE];
    struct bytes text = {0};
    int status;

    if (!manifest_find_file(manifest, HISTORY_NAME))
        return 0;
    snprintf(name, sizeof(name), "%s/" HISTORY_NAME, path);
    status = file_read(name, HISTORY_BYTES_MAX, &text, error);
    if (!status)
        status = manifest_check_file(manifest, HISTORY_NAME, &text, name, error);
    if (!status)
        status = metrics_adopt(metrics, text.data, text.size_bytes, error);
    bytes_done(&text);
    return status;
}
