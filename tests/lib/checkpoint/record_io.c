#include "lib/checkpoint/record_io.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct recording recording;

struct record *record_add(enum record_kind kind, const char *path)
{
    assert(recording.count < RECORD_MAX);
    struct record *record = &recording.records[recording.count++];
    *record = (struct record){.kind = kind};
    snprintf(record->path, sizeof(record->path), "%s", path);
    return record;
}

static int record_open(unsigned depth, void *arena, size_t arena_bytes,
                       struct io_context **ret_context, struct error *error)
{
    return recording.inner->open(depth, arena, arena_bytes, ret_context, error);
}

static void record_close(struct io_context *context)
{
    recording.inner->close(context);
}

static int record_create(struct io_context *context, const char *path, bool direct)
{
    int descriptor = recording.inner->create(context, path, direct);
    if (descriptor >= 0) {
        assert(descriptor < 1024);
        recording.file_of_descriptor[descriptor] = (int)recording.file_count;
        record_add(RECORD_CREATE, path)->file = recording.file_count++;
    }
    return descriptor;
}

static int record_write(struct io_context *context, int descriptor, const void *data,
                        size_t size_bytes, uint64_t offset, uint64_t user)
{
    int status = recording.inner->write(context, descriptor, data, size_bytes, offset, user);
    if (status == 0) {
        struct record *record = record_add(RECORD_WRITE, "");
        record->file = (unsigned)recording.file_of_descriptor[descriptor];
        record->offset = offset;
        record->size_bytes = size_bytes;
        record->data = malloc(size_bytes);
        memcpy(record->data, data, size_bytes);
        recording.in_flight++;
    }
    return status;
}

static int record_read(struct io_context *context, int descriptor, void *ret_data,
                       size_t room_bytes, size_t needed_bytes, uint64_t offset, uint64_t user)
{
    int status = recording.inner->read(context, descriptor, ret_data, room_bytes, needed_bytes,
                                       offset, user);
    if (status == 0)
        recording.in_flight++;
    return status;
}

static int record_drain(struct io_context *context, bool wait, uint64_t *ret_user)
{
    int status = recording.inner->drain(context, wait, ret_user);
    if (status != 0)
        recording.in_flight--;
    return status;
}

static int record_truncate(struct io_context *context, int descriptor, uint64_t size_bytes)
{
    assert(recording.in_flight == 0);
    struct record *record = record_add(RECORD_TRUNCATE, "");
    record->file = (unsigned)recording.file_of_descriptor[descriptor];
    record->size_bytes = (size_t)size_bytes;
    return recording.inner->truncate(context, descriptor, size_bytes);
}

static int record_reserve(struct io_context *context, int descriptor, uint64_t size_bytes)
{
    struct record *record = record_add(RECORD_TRUNCATE, "");
    record->file = (unsigned)recording.file_of_descriptor[descriptor];
    record->size_bytes = (size_t)size_bytes;
    return recording.inner->reserve(context, descriptor, size_bytes);
}

static int record_sync(struct io_context *context, int descriptor)
{
    assert(recording.in_flight == 0);
    record_add(RECORD_SYNC, "")->file = (unsigned)recording.file_of_descriptor[descriptor];
    return recording.inner->sync(context, descriptor);
}

static int record_close_file(struct io_context *context, int descriptor)
{
    return recording.inner->close_file(context, descriptor);
}

static int record_rename(struct io_context *context, const char *from, const char *to)
{
    assert(recording.in_flight == 0);
    int status = recording.inner->rename(context, from, to);
    if (status == 0) {
        struct record *record = record_add(RECORD_RENAME, from);
        snprintf(record->target, sizeof(record->target), "%s", to);
    }
    return status;
}

/* Record the content behind the name: a linked file is not written any more. */
static void record_content(struct record *record, const char *path)
{
    struct stat status;
    FILE *stream = fopen(path, "r");
    assert(stream && fstat(fileno(stream), &status) == 0);
    record->size_bytes = (size_t)status.st_size;
    record->data = malloc(record->size_bytes);
    size_t size = fread(record->data, 1, record->size_bytes, stream);
    assert(size == record->size_bytes);
    fclose(stream);
}

static int record_link(struct io_context *context, const char *from, const char *to)
{
    int status = recording.inner->link(context, from, to);
    if (status == 0) {
        struct record *record = record_add(RECORD_LINK, from);
        snprintf(record->target, sizeof(record->target), "%s", to);
        record->file = recording.file_count++;
        record_content(record, from);
    }
    return status;
}

void record_present(const char *path)
{
    const struct dirent *entry;
    DIR *directory = opendir(path);
    assert(directory);
    record_add(RECORD_MAKE_DIRECTORY, path);
    while ((entry = readdir(directory))) {
        if (entry->d_name[0] == '.')
            continue;
        struct record *record = record_add(RECORD_LINK, "");
        snprintf(record->target, sizeof(record->target), "%s/%s", path, entry->d_name);
        record->file = recording.file_count++;
        record_content(record, record->target);
    }
    closedir(directory);
}

static int record_sync_directory(struct io_context *context, const char *path)
{
    record_add(RECORD_SYNC_DIRECTORY, path);
    return recording.inner->sync_directory(context, path);
}

static int record_make_directory(struct io_context *context, const char *path)
{
    record_add(RECORD_MAKE_DIRECTORY, path);
    return recording.inner->make_directory(context, path);
}

static int record_unlink(struct io_context *context, const char *path)
{
    int status = recording.inner->unlink(context, path);
    if (status == 0)
        record_add(RECORD_UNLINK, path);
    return status;
}

const struct io *record_table(const struct io *inner)
{
    static const struct io table = {
        .name = "recording",
        .open = record_open,
        .close = record_close,
        .create = record_create,
        .write = record_write,
        .read = record_read,
        .drain = record_drain,
        .truncate = record_truncate,
        .sync = record_sync,
        .close_file = record_close_file,
        .rename = record_rename,
        .link = record_link,
        .sync_directory = record_sync_directory,
        .make_directory = record_make_directory,
        .unlink = record_unlink,
        .reserve = record_reserve,
    };
    recording.inner = inner;
    return &table;
}

void record_done(void)
{
    for (unsigned i = 0; i < recording.count; i++)
        free(recording.records[i].data);
    recording.count = recording.file_count = 0;
}
