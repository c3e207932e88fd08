#include "worker/cache/output_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"

#define MAGIC        "firnoutp"
#define VERSION      2
#define HEADER_BYTES 4096
#define BLOCK        ((uint64_t)4096)
#define FREE_PART    10 /* 1/FREE_PART of the file system stays free */

/* Little-endian, at the start of the file; the rest of HEADER_BYTES is zero. */
struct file_head {
    char magic[8];
    uint64_t version, count, size_bytes, key_high, key_low;
};

/* Before the content of each record. */
struct record_head {
    uint64_t written; /* 0: a hole */
    uint64_t hash_high, hash_low;
    uint64_t unused[5];
};

static_assert(sizeof(struct record_head) == 64, "the content begins at a line of the cache");

struct output_file {
    int descriptor;
    struct output_file_shape shape;
};

uint64_t output_file_record_bytes(size_t size_bytes)
{
    return (sizeof(struct record_head) + size_bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static uint64_t records_begin(const struct output_file_shape *shape)
{
    return HEADER_BYTES + (shape->count + BLOCK - 1) / BLOCK * BLOCK;
}

struct output_file_part output_file_marks(const struct output_file_shape *shape)
{
    return (struct output_file_part){HEADER_BYTES, (size_t)shape->count};
}

struct output_file_part output_file_record(const struct output_file_shape *shape, uint64_t index)
{
    assert(index < shape->count);
    return (struct output_file_part){
        .offset = records_begin(shape) + index * output_file_record_bytes(shape->size_bytes),
        .size_bytes = sizeof(struct record_head) + shape->size_bytes,
    };
}

static off_t place_of(const struct output_file *file, uint64_t index)
{
    return (off_t)output_file_record(&file->shape, index).offset;
}

static uint64_t file_bytes(const struct output_file_shape *shape)
{
    return records_begin(shape) + shape->count * output_file_record_bytes(shape->size_bytes);
}

static struct file_head head_of(const struct output_file_shape *shape)
{
    struct file_head head = {.version = VERSION,
                             .count = shape->count,
                             .size_bytes = shape->size_bytes,
                             .key_high = shape->key.high,
                             .key_low = shape->key.low};

    memcpy(head.magic, MAGIC, sizeof(head.magic));
    return head;
}

/* Return whether the file has @shape. */
static bool is_of(int descriptor, const struct output_file_shape *shape)
{
    const struct file_head want = head_of(shape);
    struct file_head found;
    struct stat status;

    return pread(descriptor, &found, sizeof(found), 0) == (ssize_t)sizeof(found) &&
           memcmp(&found, &want, sizeof(want)) == 0 && fstat(descriptor, &status) == 0 &&
           (uint64_t)status.st_size == file_bytes(shape);
}

/* The head is written last: an incomplete file has none. */
static int begin(int descriptor, const struct output_file_shape *shape)
{
    const struct file_head head = head_of(shape);

    if (ftruncate(descriptor, 0) || ftruncate(descriptor, (off_t)file_bytes(shape)))
        return -errno;
    ssize_t written = pwrite(descriptor, &head, sizeof(head), 0);
    if (written < 0)
        return -errno;
    return written == (ssize_t)sizeof(head) ? 0 : -ENOSPC;
}

/* Workers that start together create the file once. */
static int prepare(int descriptor, const struct output_file_shape *shape)
{
    int status = 0;

    while (flock(descriptor, LOCK_EX))
        if (errno != EINTR)
            return -errno;
    if (!is_of(descriptor, shape))
        status = begin(descriptor, shape);
    flock(descriptor, LOCK_UN);
    return status;
}

int output_file_open(const char *path, const struct output_file_shape *shape,
                     struct output_file **ret_file, struct error *error)
{
    struct output_file *file = malloc(sizeof(*file));
    int status = file ? 0 : -ENOMEM;

    if (file) {
        *file = (struct output_file){.descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600),
                                     .shape = *shape};
        status = file->descriptor < 0 ? -errno : prepare(file->descriptor, shape);
    }
    if (status) {
        output_file_close(file);
        return error_set(error, status, "%s: %s", path, strerror(-status));
    }
    *ret_file = file;
    return 0;
}

void output_file_close(struct output_file *file)
{
    if (!file)
        return;
    close_descriptor(&file->descriptor);
    free(file);
}

/* The content's hash, mixed with the key and the index. */
static struct record_head head_of_record(const struct output_file *file, uint64_t index,
                                         const void *content)
{
    struct hash128 of_content = hash_xxh3(content, file->shape.size_bytes);
    const uint64_t words[5] = {of_content.high, of_content.low, file->shape.key.high,
                               file->shape.key.low, index};
    struct hash128 hash = hash_xxh3(words, sizeof(words));

    return (struct record_head){.written = 1, .hash_high = hash.high, .hash_low = hash.low};
}

/* Read or write all of a record by @call, preadv or pwritev. */
static int transfer(const struct output_file *file, uint64_t index, struct record_head *head,
                    void *content, ssize_t (*call)(int, const struct iovec *, int, off_t))
{
    size_t total = sizeof(*head) + file->shape.size_bytes, done = 0;

    while (done < total) {
        size_t of_head = done < sizeof(*head) ? sizeof(*head) - done : 0;
        size_t of_content = done - (sizeof(*head) - of_head);
        struct iovec parts[2] = {
            {(char *)head + (sizeof(*head) - of_head), of_head},
            {(char *)content + of_content, file->shape.size_bytes - of_content},
        };
        ssize_t moved = call(file->descriptor, parts, 2, place_of(file, index) + (off_t)done);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return -errno;
        if (moved == 0) /* another process has truncated the file */
            return -EIO;
        done += (size_t)moved;
    }
    return 0;
}

int output_file_read(const struct output_file *file, uint64_t index, void *ret_content)
{
    struct record_head head;
    int status = transfer(file, index, &head, ret_content, preadv);

    if (status)
        return status;
    if (head.written == 0)
        return -ENOENT;
    const struct record_head want = head_of_record(file, index, ret_content);
    return memcmp(&head, &want, sizeof(head)) == 0 ? 0 : -EBADMSG;
}

static off_t mark_of(const struct output_file *file, uint64_t index)
{
    assert(index < file->shape.count);
    return (off_t)(output_file_marks(&file->shape).offset + index);
}

/* A condemned or truncated file is not written to. */
static bool is_whole(const struct output_file *file)
{
    struct stat status;

    return fstat(file->descriptor, &status) == 0 &&
           (uint64_t)status.st_size == file_bytes(&file->shape);
}

bool output_file_has_space(const struct output_file *file)
{
    struct statvfs space;

    return fstatvfs(file->descriptor, &space) || space.f_bavail >= space.f_blocks / FREE_PART;
}

static int write_record(const struct output_file *file, uint64_t index, struct record_head *head,
                        const void *content)
{
    static const uint8_t written = 1;
    if (!is_whole(file))
        return -EIO;
    int status = transfer(file, index, head, (void *)(uintptr_t)content, pwritev);

    if (!status && pwrite(file->descriptor, &written, 1, mark_of(file, index)) < 0)
        status = -errno;
    return status;
}

int output_file_write(const struct output_file *file, uint64_t index, const void *content)
{
    struct record_head head = head_of_record(file, index, content);

    return write_record(file, index, &head, content);
}

bool output_file_has(const struct output_file *file, uint64_t index)
{
    uint8_t mark = 0;

    return pread(file->descriptor, &mark, 1, mark_of(file, index)) == 1 && mark != 0;
}

int output_file_put(const struct output_file *file, uint64_t index, const void *record)
{
    const char *content = (const char *)record + sizeof(struct record_head);
    struct record_head head = head_of_record(file, index, content);

    return memcmp(record, &head, sizeof(head)) == 0 ? write_record(file, index, &head, content)
                                                    : -EBADMSG;
}

void output_file_condemn(const struct output_file *file)
{
    if (ftruncate(file->descriptor, 0))
        log_warning("outputs of frozen layers cannot be removed: %s", strerror(errno));
}

void output_file_expect(const struct output_file *file, uint64_t index)
{
    (void)posix_fadvise(file->descriptor, place_of(file, index),
                        (off_t)output_file_record_bytes(file->shape.size_bytes),
                        POSIX_FADV_WILLNEED);
}
