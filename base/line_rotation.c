#include "base/line_rotation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sorted_lines.h"

/* Read the newest whole lines of a file. @ret_lines borrows from @ret_data. */
static int read_newest(const char *path, size_t kept_bytes, char **ret_data,
                       struct bytes *ret_lines)
{
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat found;

    if (descriptor < 0 || fstat(descriptor, &found))
        return -errno;
    off_t from = MAX(found.st_size - (off_t)kept_bytes, (off_t)0);
    int status = sorted_lines_read(descriptor, from, found.st_size, ret_data);
    if (status)
        return status;
    size_t size = (size_t)(found.st_size - from);
    const char *begin = *ret_data, *end = begin + size;
    const char *cut = from > 0 ? memchr(begin, '\n', size) : NULL;
    const char *last = size ? memrchr(begin, '\n', size) : NULL;
    if (from > 0)
        begin = cut ? cut + 1 : end;
    *ret_lines =
        (struct bytes){.data = (uint8_t *)begin,
                       .size_bytes = last && last >= begin ? (size_t)(last + 1 - begin) : 0};
    return 0;
}

int lines_rotate(const char *path, size_t kept_bytes, struct error *error)
{
    AUTO_FREE char *older = NULL, *data = NULL;
    struct bytes lines = {0};

    if (asprintf(&older, "%s" LINE_ROTATION_SUFFIX, path) < 0) {
        older = NULL;
        return error_set(error, -ENOMEM, "no memory to rotate %s", path);
    }
    int status = read_newest(path, kept_bytes, &data, &lines);
    if (status)
        return error_set(error, status, "rotating %s: %s", path, strerror(-status));
    if ((unlink(older) && errno != ENOENT) || link(path, older))
        return error_set(error, -errno, "%s cannot be replaced, so %s grows: %s; remove it", older,
                         path, strerror(errno));
    return file_replace(path, lines.data, lines.size_bytes, 0644, error);
}
