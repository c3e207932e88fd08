#include "lib/checkpoint/fault_io.h"

#include <errno.h>
#include <unistd.h>

struct fault fault = {
    .fail_at = FAULT_NEVER, .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

void fault_arm(uint64_t fail_at, int code, bool torn, bool stay_dead)
{
    fault.count = 0;
    fault.fail_at = fail_at;
    fault.fail_code = code;
    fault.torn = torn;
    fault.stay_dead = stay_dead;
}

void fault_disarm(void)
{
    fault_arm(FAULT_NEVER, 0, false, false);
}

void fault_gate(bool closed)
{
    pthread_mutex_lock(&fault.lock);
    fault.gate_closed = closed;
    pthread_cond_broadcast(&fault.opened);
    pthread_mutex_unlock(&fault.lock);
}

static bool fault_now(void)
{
    uint64_t number = fault.count++;
    return number == fault.fail_at || (fault.stay_dead && number > fault.fail_at);
}

static int fault_open(unsigned depth, void *arena, size_t arena_bytes,
                      struct io_context **ret_context, struct error *error)
{
    return fault.inner->open(depth, arena, arena_bytes, ret_context, error);
}

static void fault_close(struct io_context *context)
{
    fault.inner->close(context);
}

static int fault_create(struct io_context *context, const char *path, bool direct)
{
    pthread_mutex_lock(&fault.lock);
    while (fault.gate_closed)
        pthread_cond_wait(&fault.opened, &fault.lock);
    pthread_mutex_unlock(&fault.lock);
    return fault_now() ? fault.fail_code : fault.inner->create(context, path, direct);
}

static int fault_write(struct io_context *context, int descriptor, const void *data,
                       size_t size_bytes, uint64_t offset, uint64_t user)
{
    if (!fault_now())
        return fault.inner->write(context, descriptor, data, size_bytes, offset, user);
    size_t half = size_bytes / 2 / 4096 * 4096;
    if (fault.torn && half > 0 && pwrite(descriptor, data, half, (off_t)offset) < 0)
        return -errno;
    return fault.fail_code;
}

static int fault_read(struct io_context *context, int descriptor, void *ret_data, size_t room_bytes,
                      size_t needed_bytes, uint64_t offset, uint64_t user)
{
    if (fault_now())
        return fault.fail_code;
    return fault.inner->read(context, descriptor, ret_data, room_bytes, needed_bytes, offset, user);
}

/* Only completions count, so that the numbering does not depend on timing. */
static int fault_drain(struct io_context *context, bool wait, uint64_t *ret_user)
{
    int status = fault.inner->drain(context, wait, ret_user);
    return status == 1 && fault_now() ? fault.fail_code : status;
}

static int fault_truncate(struct io_context *context, int descriptor, uint64_t size_bytes)
{
    return fault_now() ? fault.fail_code : fault.inner->truncate(context, descriptor, size_bytes);
}

static int fault_sync(struct io_context *context, int descriptor)
{
    return fault_now() ? fault.fail_code : fault.inner->sync(context, descriptor);
}

/* Linux closes the descriptor even when close() fails. */
static int fault_close_file(struct io_context *context, int descriptor)
{
    int status = fault.inner->close_file(context, descriptor);
    return fault_now() ? fault.fail_code : status;
}

static int fault_rename(struct io_context *context, const char *from, const char *to)
{
    return fault_now() ? fault.fail_code : fault.inner->rename(context, from, to);
}

static int fault_link(struct io_context *context, const char *from, const char *to)
{
    return fault_now() ? fault.fail_code : fault.inner->link(context, from, to);
}

static int fault_sync_directory(struct io_context *context, const char *path)
{
    return fault_now() ? fault.fail_code : fault.inner->sync_directory(context, path);
}

static int fault_make_directory(struct io_context *context, const char *path)
{
    return fault_now() ? fault.fail_code : fault.inner->make_directory(context, path);
}

static int fault_unlink(struct io_context *context, const char *path)
{
    return fault_now() ? fault.fail_code : fault.inner->unlink(context, path);
}

static int fault_reserve(struct io_context *context, int descriptor, uint64_t size_bytes)
{
    return fault_now() ? fault.fail_code : fault.inner->reserve(context, descriptor, size_bytes);
}

const struct io *fault_table(const struct io *inner)
{
    static const struct io table = {
        .name = "faulty",
        .open = fault_open,
        .close = fault_close,
        .create = fault_create,
        .write = fault_write,
        .read = fault_read,
        .drain = fault_drain,
        .truncate = fault_truncate,
        .sync = fault_sync,
        .close_file = fault_close_file,
        .rename = fault_rename,
        .link = fault_link,
        .sync_directory = fault_sync_directory,
        .make_directory = fault_make_directory,
        .unlink = fault_unlink,
        .reserve = fault_reserve,
    };
    fault.inner = inner;
    return &table;
}
