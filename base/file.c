/*
 * Whole files. After a crash at any point a replaced file is old or new, never a mixture: data is
 * durable before the name points to it, and the name is durable before success is reported. A crash
 * in between leaves a ".tmp-" file, which is never read.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_TRIES_MAX 16 /* with names that are taken */

#define READ_PIECE_BYTES 65536

static int fail(struct error *error, const char *action, const char *path)
{
    int status = -errno;
    return error_set(error, status, "cannot %s %s: %s", action, path, strerror(-status));
}

static ssize_t read_retrying(int descriptor, void *buffer, size_t size_bytes)
{
    ssize_t count;
    do
        count = read(descriptor, buffer, size_bytes);
    while (count < 0 && errno == EINTR);
    return count;
}

static int read_all(int descriptor, const char *path, size_t size_max, struct bytes *content,
                    struct error *error)
{
    for (;;) {
        char piece[READ_PIECE_BYTES];
        ssize_t count = read_retrying(descriptor, piece, sizeof(piece));
        if (count < 0)
            return fail(error, "read", path);
        if ((size_t)count > size_max - content->size_bytes)
            return error_set(error, -EFBIG, "%s is larger than %zu bytes", path, size_max);
        /* The zero that closes the last piece is within capacity but not within size. */
        int status =
            count > 0 ? bytes_append(content, piece, (size_t)count) : bytes_append(content, "", 1);
        if (status < 0)
            return error_set(error, status, "out of memory while reading %s", path);
        if (count == 0) {
            content->size_bytes--;
            return 0;
        }
    }
}

int file_read(const char *path, size_t size_max, struct bytes *ret_content, struct error *error)
{
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return fail(error, "open", path);
    struct bytes content = {0};
    int status = read_all(descriptor, path, size_max, &content, error);
    if (status < 0) {
        bytes_done(&content);
        return status;
    }
    *ret_content = content;
    return 0;
}

static int write_all(int descriptor, const char *data, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t count = write(descriptor, data, size_bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -1;
        data += count;
        size_bytes -= (size_t)count;
    }
    return 0;
}

/* Copy the parent folder of @path; "." for a bare name. */
static void parent_of(const char *path, char ret_parent[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(ret_parent, PATH_MAX, ".");
    else
        snprintf(ret_parent, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Create a temporary file with open(), which honours the umask and the folder's default ACL. */
static int create_temporary(const char *path, unsigned mode, char ret_temporary[PATH_MAX],
                            struct error *error)
{
    for (unsigned tries = 0; tries < TEMPORARY_TRIES_MAX; tries++) {
        uint64_t word;
        if (getrandom(&word, sizeof(word), 0) != sizeof(word))
            return fail(error, "draw a name for", path);
        int length =
            snprintf(ret_temporary, PATH_MAX, "%s.tmp-%06" PRIx64, path, word % 0x1000000u);
        if (length < 0 || length >= PATH_MAX)
            return error_set(error, -ENAMETOOLONG, "path is too long: %.64s...", path);
        int descriptor = open(ret_temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor >= 0 ? descriptor : fail(error, "create a temporary file for", path);
    }
    return fail(error, "create a temporary file for", path);
}

static int fill_temporary(int descriptor, const char *path, const void *data, size_t size_bytes,
                          struct error *error)
{
    if (write_all(descriptor, data, size_bytes) < 0)
        return fail(error, "write", path);
    if (fsync(descriptor) < 0)
        return fail(error, "sync", path);
    return 0;
}

int file_replace(const char *path, const void *data, size_t size_bytes, unsigned mode,
                 struct error *error)
{
    char parent[PATH_MAX], temporary[PATH_MAX];
    AUTO_CLOSE int descriptor = create_temporary(path, mode, temporary, error);
    if (descriptor < 0)
        return descriptor;
    parent_of(path, parent);
    int status = fill_temporary(descriptor, temporary, data, size_bytes, error);
    if (status == 0 && rename(temporary, path) < 0)
        status = fail(error, "replace", path);
    if (status < 0) {
        unlink(temporary);
        return status;
    }
    return file_sync_directory(parent, error);
}

/* Make a directory; an existing one is no error. */
static int ensure_directory(const char *path, unsigned mode, struct error *error)
{
    struct stat status;
    if (mkdir(path, (mode_t)mode) == 0)
        return 0;
    if (errno == EEXIST && stat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return 0;
        errno = ENOTDIR;
    }
    return fail(error, "create the directory", path);
}

int file_make_directories(const char *path, unsigned mode, struct error *error)
{
    char partial[PATH_MAX];
    int length = snprintf(partial, sizeof(partial), "%s", path);
    if (length <= 0 || (size_t)length >= sizeof(partial))
        return error_set(error, -EINVAL, "a directory's path has 1 to %d bytes, not %d",
                         PATH_MAX - 1, length);
    for (char *at = partial + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        int status = ensure_directory(partial, mode, error);
        *at = '/';
        if (status < 0)
            return status;
    }
    return ensure_directory(partial, mode, error);
}

int file_sync_directory(const char *path, struct error *error)
{
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return fail(error, "open the directory", path);
    if (fsync(descriptor) < 0)
        return fail(error, "sync the directory", path);
    return 0;
}
