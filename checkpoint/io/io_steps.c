#include "checkpoint/io/io_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define INTERRUPTIONS_MAX 64

int io_step_create(struct io_context *context, const char *path, bool direct)
{
    (void)context;
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int descriptor = open(path, flags | (direct ? O_DIRECT : 0), 0644);
    if (descriptor < 0 && direct && errno == EINVAL) {
        unlink(path); /* tmpfs and others create the file before they refuse O_DIRECT */
        descriptor = open(path, flags, 0644);
    }
    return descriptor < 0 ? -errno : descriptor;
}

int io_step_truncate(struct io_context *context, int descriptor, uint64_t size_bytes)
{
    (void)context;
    for (unsigned i = 0; i < INTERRUPTIONS_MAX; i++) {
        if (ftruncate(descriptor, (off_t)size_bytes) == 0)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
    return -EINTR;
}

int io_step_sync(struct io_context *context, int descriptor)
{
    (void)context;
    return fdatasync(descriptor) == 0 ? 0 : -errno;
}

int io_step_close_file(struct io_context *context, int descriptor)
{
    (void)context;
    /* Linux closes the descriptor even if it reports EINTR. */
    return close(descriptor) == 0 || errno == EINTR ? 0 : -errno;
}

int io_step_rename(struct io_context *context, const char *from, const char *to)
{
    (void)context;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* Some network file systems lack the flag. rename() refuses a non-empty directory anyway. */
    if (rename(from, to) == 0)
        return 0;
    return errno == ENOTEMPTY ? -EEXIST : -errno;
}

int io_step_link(struct io_context *context, const char *from, const char *to)
{
    (void)context;
    return link(from, to) == 0 ? 0 : -errno;
}

int io_step_sync_directory(struct io_context *context, const char *path)
{
    (void)context;
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    return fsync(descriptor) == 0 ? 0 : -errno;
}

/* Return the folder that contains @path, which has no trailing slash. */
static void parent_of(const char *path, char ret_parent[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        snprintf(ret_parent, PATH_MAX, ".");
    else
        snprintf(ret_parent, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* Return 1 if the folder was created. */
static int make_one(const char *path)
{
    struct stat status;
    if (mkdir(path, 0755) == 0)
        return 1;
    if (errno != EEXIST)
        return -errno;
    if (stat(path, &status) != 0)
        return -errno;
    return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

static int make_durable(const char *path)
{
    char parent[PATH_MAX];
    int status = make_one(path);
    if (status != 1)
        return status;
    parent_of(path, parent);
    return io_step_sync_directory(NULL, parent);
}

int io_step_make_directory(struct io_context *context, const char *path)
{
    (void)context;
    char partial[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof(partial))
        return length == 0 ? -ENOENT : -ENAMETOOLONG;
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (partial[i] != '/' || partial[i - 1] == '/')
            continue;
        partial[i] = '\0';
        int status = make_durable(partial);
        partial[i] = '/';
        if (status != 0)
            return status;
    }
    int status = make_one(partial);
    return status < 0 ? status : 0;
}

int io_step_unlink(struct io_context *context, const char *path)
{
    (void)context;
    return remove(path) == 0 ? 0 : -errno;
}

/* Without fallocate, compare with the free space: only an estimate, but an early one. */
static int compare_free_space(int descriptor, uint64_t size_bytes)
{
    struct statvfs status;
    if (fstatvfs(descriptor, &status) != 0)
        return -errno;
    uint64_t blocks = size_bytes / status.f_frsize + 1;
    return status.f_bavail < blocks ? -ENOSPC : 0;
}

int io_step_reserve(struct io_context *context, int descriptor, uint64_t size_bytes)
{
    (void)context;
    if (size_bytes == 0)
        return 0;
    for (unsigned i = 0; i < INTERRUPTIONS_MAX; i++) {
        if (fallocate(descriptor, 0, 0, (off_t)size_bytes) == 0)
            return 0;
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return compare_free_space(descriptor, size_bytes);
        if (errno != EINTR)
            return -errno;
    }
    return -EINTR;
}
