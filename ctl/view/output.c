#include "ctl/view/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

int output_json(json_t *tree, struct error *error)
{
    AUTO_FREE char *text = tree ? json_text_indented(tree) : NULL;

    json_decref(tree);
    if (!text)
        return error_set(error, -ENOMEM, "no memory for the answer");
    puts(text);
    return 0;
}

/* Return whether @path is a device, a pipe or the like, with no content to replace. */
static bool is_special(const char *path)
{
    struct stat status;

    return !stat(path, &status) && !S_ISREG(status.st_mode);
}

static int write_into(const char *path, const void *data, size_t size_bytes, struct error *error)
{
    AUTO_CLOSE int file = open(path, O_WRONLY | O_CLOEXEC);
    const char *at = data;

    while (file >= 0 && size_bytes > 0) {
        ssize_t written = write(file, at, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            break;
        at += written;
        size_bytes -= (size_t)written;
    }
    return file >= 0 && !size_bytes ? 0 : error_set(error, -errno, "%s: %s", path, strerror(errno));
}

int output_file(const char *path, const void *data, size_t size_bytes, struct error *error)
{
    if (is_special(path))
        return write_into(path, data, size_bytes, error);
    AUTO_FREE char *target = realpath(path, NULL);

    return file_replace(target ? target : path, data, size_bytes, 0644, error);
}

int output_flush(struct error *error)
{
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    return error_set(error, errno ? -errno : -EIO, "standard output: %s",
                     strerror(errno ? errno : EIO));
}
