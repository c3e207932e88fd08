#include "lib/calls/file_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_CALLS_DESCRIPTORS 1024

static struct file_calls {
    const char *below; /* NULL: ignore all calls */
    atomic_long left;  /* calls until the failing one; negative: none will fail */
    atomic_bool hit;
    enum file_calls_kind kind;
    int code;     /* errno */
    bool records; /* disk changes go into the recording (record_io.h); one thread */
    atomic_bool ours[FILE_CALLS_DESCRIPTORS];
} file_calls = {.left = -1};

void file_calls_arm(const char *below, long number, enum file_calls_kind kind, int code)
{
    file_calls.below = below;
    file_calls.kind = kind;
    file_calls.code = code;
    file_calls.hit = false;
    file_calls.left = number;
}

bool file_calls_disarm(void)
{
    file_calls.left = -1;
    file_calls.below = NULL;
    file_calls.records = false;
    return file_calls.hit;
}

static bool file_calls_turn(void)
{
    if (file_calls.left < 0 || atomic_fetch_sub(&file_calls.left, 1) != 0)
        return false;
    file_calls.hit = true;
    return true;
}

static bool file_calls_path(const char *path)
{
    return file_calls.below && strncmp(path, file_calls.below, strlen(file_calls.below)) == 0;
}

/* Return whether this call is the failing one; errno is the failure. */
static bool file_calls_fails(bool ours)
{
    if (!ours || !file_calls_turn() || file_calls.kind != FILE_CALLS_FAIL)
        return false;
    errno = file_calls.code;
    return true;
}

static bool file_calls_owns(int descriptor)
{
    return descriptor >= 0 && descriptor < FILE_CALLS_DESCRIPTORS && file_calls.ours[descriptor];
}

static int file_calls_mark(int descriptor, bool ours)
{
    if (descriptor >= 0 && descriptor < FILE_CALLS_DESCRIPTORS)
        file_calls.ours[descriptor] = ours;
    return descriptor;
}

/* Return the size of the transfer that is carried out; negative: it fails. */
static ssize_t file_calls_share(int descriptor, size_t size)
{
    if (!file_calls_owns(descriptor) || !file_calls_turn())
        return (ssize_t)size;
    if (file_calls.kind == FILE_CALLS_SHORT)
        return (ssize_t)(size - size / 2);
    errno = file_calls.code;
    return -1;
}

void file_calls_record(const char *below)
{
    file_calls_arm(below, -1, FILE_CALLS_FAIL, 0);
    file_calls.records = true;
}

static void file_calls_path_of(int descriptor, char ret_path[1280])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, ret_path, 1279);
    assert(length > 0);
    ret_path[length] = '\0';
}

static void file_calls_created(int descriptor, const char *path)
{
    if (descriptor < 0)
        return;
    recording.file_of_descriptor[descriptor] = (int)recording.file_count;
    record_add(RECORD_CREATE, path)->file = recording.file_count++;
}

static struct record *file_calls_content(enum record_kind kind, int descriptor)
{
    struct record *record = record_add(kind, "");
    record->file = (unsigned)recording.file_of_descriptor[descriptor];
    return record;
}

static ssize_t file_calls_wrote(int descriptor, const void *data, ssize_t size, off_t offset)
{
    if (!file_calls.records || !file_calls_owns(descriptor) || size <= 0)
        return size;
    struct record *record = file_calls_content(RECORD_WRITE, descriptor);
    record->offset = (uint64_t)offset;
    record->size_bytes = (size_t)size;
    record->data = malloc((size_t)size);
    memcpy(record->data, data, (size_t)size);
    return size;
}

static int file_calls_resized(int descriptor, int result, off_t size)
{
    if (file_calls.records && file_calls_owns(descriptor) && result == 0)
        file_calls_content(RECORD_TRUNCATE, descriptor)->size_bytes = (size_t)size;
    return result;
}

static int file_calls_synced(int descriptor, int result)
{
    struct stat status;
    char path[1280];
    if (!file_calls.records || !file_calls_owns(descriptor) || result != 0)
        return result;
    assert(fstat(descriptor, &status) == 0);
    if (S_ISDIR(status.st_mode)) {
        file_calls_path_of(descriptor, path);
        record_add(RECORD_SYNC_DIRECTORY, path);
    } else {
        file_calls_content(RECORD_SYNC, descriptor);
    }
    return result;
}

static int file_calls_named(enum record_kind kind, int result, const char *path, const char *target)
{
    if (!file_calls.records || !file_calls_path(path) || result != 0)
        return result;
    struct record *record = record_add(kind, path);
    snprintf(record->target, sizeof(record->target), "%s", target);
    return result;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    bool ours = file_calls_path(path);
    va_start(arguments, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (file_calls_fails(ours))
        return -1;
    bool made = file_calls.records && ours && (flags & O_CREAT) != 0 && access(path, F_OK) != 0;
    int descriptor = file_calls_mark((int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), ours);
    if (made)
        file_calls_created(descriptor, path);
    return descriptor;
}

int mkostemp(char *name, int flags)
{
    static atomic_uint number;
    snprintf(name + strlen(name) - 6, 7, "%06u", atomic_fetch_add(&number, 1));
    return open(name, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
}

int close(int descriptor)
{
    file_calls_mark(descriptor, false);
    return (int)syscall(SYS_close, descriptor);
}

ssize_t pread(int descriptor, void *data, size_t size, off_t offset)
{
    ssize_t share = file_calls_share(descriptor, size);
    return share < 0 ? -1 : syscall(SYS_pread64, descriptor, data, (size_t)share, offset);
}

ssize_t read(int descriptor, void *data, size_t size)
{
    ssize_t share = file_calls_share(descriptor, size);
    return share < 0 ? -1 : syscall(SYS_read, descriptor, data, (size_t)share);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
    ssize_t share = file_calls_share(descriptor, size);
    ssize_t done = share < 0 ? -1 : syscall(SYS_pwrite64, descriptor, data, (size_t)share, offset);
    return file_calls_wrote(descriptor, data, done, offset);
}

ssize_t write(int descriptor, const void *data, size_t size)
{
    ssize_t share = file_calls_share(descriptor, size);
    off_t offset = file_calls_owns(descriptor) ? lseek(descriptor, 0, SEEK_CUR) : 0;
    ssize_t done = share < 0 ? -1 : syscall(SYS_write, descriptor, data, (size_t)share);
    return file_calls_wrote(descriptor, data, done, offset);
}

int fsync(int descriptor)
{
    return file_calls_fails(file_calls_owns(descriptor))
               ? -1
               : file_calls_synced(descriptor, (int)syscall(SYS_fsync, descriptor));
}

int fdatasync(int descriptor)
{
    return file_calls_fails(file_calls_owns(descriptor))
               ? -1
               : file_calls_synced(descriptor, (int)syscall(SYS_fdatasync, descriptor));
}

int ftruncate(int descriptor, off_t size)
{
    return file_calls_fails(file_calls_owns(descriptor))
               ? -1
               : file_calls_resized(descriptor, (int)syscall(SYS_ftruncate, descriptor, size),
                                    size);
}

int fallocate(int descriptor, int mode, off_t offset, off_t size)
{
    return file_calls_fails(file_calls_owns(descriptor))
               ? -1
               : file_calls_resized(descriptor,
                                    (int)syscall(SYS_fallocate, descriptor, mode, offset, size),
                                    offset + size);
}

int posix_fallocate(int descriptor, off_t offset, off_t size)
{
    return fallocate(descriptor, 0, offset, size) == 0 ? 0 : errno;
}

int rename(const char *from, const char *to)
{
    return file_calls_fails(file_calls_path(from))
               ? -1
               : file_calls_named(RECORD_RENAME,
                                  (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0u),
                                  from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return file_calls_fails(file_calls_path(from))
               ? -1
               : file_calls_named(
                     RECORD_RENAME,
                     (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags), from,
                     to);
}

int link(const char *from, const char *to)
{
    return file_calls_fails(file_calls_path(from))
               ? -1
               : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int mkdir(const char *path, mode_t mode)
{
    return file_calls_fails(file_calls_path(path))
               ? -1
               : file_calls_named(RECORD_MAKE_DIRECTORY, (int)syscall(SYS_mkdir, path, mode), path,
                                  "");
}

int unlink(const char *path)
{
    return file_calls_fails(file_calls_path(path))
               ? -1
               : file_calls_named(RECORD_UNLINK, (int)syscall(SYS_unlink, path), path, "");
}

/* Remove a name below an open folder. */
int unlinkat(int folder, const char *name, int flags)
{
    char inside[1280], path[1280] = "";
    if (file_calls.below) {
        file_calls_path_of(folder, inside);
        snprintf(path, sizeof(path), "%.1000s/%.255s", inside, name);
    }
    return file_calls_fails(file_calls_path(path))
               ? -1
               : file_calls_named(RECORD_UNLINK, (int)syscall(SYS_unlinkat, folder, name, flags),
                                  path, "");
}

int rmdir(const char *path)
{
    return file_calls_fails(file_calls_path(path))
               ? -1
               : file_calls_named(RECORD_UNLINK, (int)syscall(SYS_rmdir, path), path, "");
}
