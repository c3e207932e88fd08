#include "worker/metrics/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sorted_lines.h"

int line_file_open(struct line_file *file, struct error *error)
{
    close_descriptor(&file->descriptor);
    file->descriptor = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return file->descriptor >= 0
               ? 0
               : error_set(error, -errno, "opening %s: %s", file->path, strerror(errno));
}

int line_file_ensure_open(struct line_file *file, struct error *error)
{
    return line_file_is_open(file) ? 0 : line_file_open(file, error);
}

int line_file_size(const struct line_file *file, off_t *ret_size, struct error *error)
{
    struct stat found = {0};

    if (line_file_is_open(file) && fstat(file->descriptor, &found))
        return error_set(error, -errno, "reading %s: %s", file->path, strerror(errno));
    *ret_size = found.st_size;
    return 0;
}

int line_file_read(const struct line_file *file, off_t from, off_t end, struct bytes *ret_text,
                   struct error *error)
{
    char *data;
    int status = sorted_lines_read(file->descriptor, from, end, &data);

    if (status)
        return error_set(error, status, "reading %s: %s", file->path, strerror(-status));
    *ret_text = (struct bytes){.data = (uint8_t *)data,
                               .size_bytes = (size_t)(end - from),
                               .capacity_bytes = (size_t)(end - from) + 1};
    return 0;
}

/* ---- lines ---- */

static int step_of_line(const char *line, size_t size_bytes, uint64_t *ret_step)
{
    struct exact exact = {0};
    int status = exact_line_parse(line, size_bytes, &exact, NULL);

    *ret_step = exact.step;
    return status;
}

static struct sorted_lines lines_of(const struct line_file *file)
{
    return (struct sorted_lines){.descriptor = file->descriptor, .number_of = step_of_line};
}

int line_file_find(const struct line_file *file, uint64_t step, off_t *ret_offset,
                   struct error *error)
{
    const struct sorted_lines lines = lines_of(file);
    off_t size = 0;
    int status = line_file_size(file, &size, error);

    if (status)
        return status;
    status = sorted_lines_find(&lines, step, size, ret_offset);
    if (status == -EBADMSG)
        return error_set(error, status, "%s is damaged before step %" PRIu64, file->path, step);
    return status ? error_set(error, status, "reading %s: %s", file->path, strerror(-status)) : 0;
}

int line_file_begin_after(const struct line_file *file, off_t from, off_t *ret_begin)
{
    const struct sorted_lines lines = lines_of(file);
    struct sorted_line line;
    off_t size = 0;
    int status = line_file_size(file, &size, NULL);

    if (!status)
        status = sorted_lines_at(&lines, from, size, size, &line);
    if (!status)
        *ret_begin = line.begin;
    return status;
}

bool line_file_get(const struct line_file *file, uint64_t step, struct exact *ret_exact)
{
    const struct sorted_lines lines = lines_of(file);
    AUTO_FREE char *text = NULL;
    struct sorted_line line;
    off_t offset = 0, size = 0;

    if (!line_file_is_open(file) || line_file_find(file, step, &offset, NULL) ||
        line_file_size(file, &size, NULL) || sorted_lines_at(&lines, offset, size, size, &line) ||
        line.number != step || sorted_lines_read(file->descriptor, line.begin, line.end, &text))
        return false;
    return !exact_line_parse(text, (size_t)(line.end - line.begin), ret_exact, NULL);
}

/* ---- changes ---- */

int line_file_cut(const struct line_file *file, off_t size)
{
    return ftruncate(file->descriptor, size) ? -errno : 0;
}

static int write_all(int descriptor, const struct bytes *text)
{
    for (size_t done = 0; done < text->size_bytes;) {
        ssize_t n = write(descriptor, text->data + done, text->size_bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ENOSPC;
        done += (size_t)n;
    }
    return 0;
}

int line_file_write(const struct line_file *file, const struct bytes *text)
{
    int status = write_all(file->descriptor, text);

    if (!status && fsync(file->descriptor))
        status = -errno;
    return status;
}

/* Append the bytes [@from, @end) of the file to another file. */
static int copy_range(const struct line_file *file, int to, off_t from, off_t end)
{
    while (from < end) {
        ssize_t n = copy_file_range(file->descriptor, &from, to, NULL, (size_t)(end - from), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
    }
    return 0;
}

int line_file_replace(const struct line_file *file, off_t offset, off_t end,
                      const struct bytes *text, struct error *error)
{
    AUTO_FREE char *path = NULL;
    off_t size = 0;
    int status = line_file_size(file, &size, error);

    if (status)
        return status;
    if (offset == 0 && end >= size)
        return file_replace(file->path, text->data, text->size_bytes, 0644, error);
    if (asprintf(&path, "%s.new", file->path) < 0) {
        path = NULL;
        return error_set(error, -ENOMEM, "no memory to replace %s", file->path);
    }
    AUTO_CLOSE int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    status = descriptor < 0 ? -errno : copy_range(file, descriptor, 0, offset);
    if (!status)
        status = write_all(descriptor, text);
    if (!status)
        status = copy_range(file, descriptor, end, size);
    if (!status && (fsync(descriptor) || rename(path, file->path)))
        status = -errno;
    if (!status)
        return 0;
    unlink(path);
    return error_set(error, status, "replacing %s: %s", file->path, strerror(-status));
}
