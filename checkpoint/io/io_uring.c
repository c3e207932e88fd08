/*
 * Write and read through io_uring.
 *
 * One slot per request in flight; the slot's index is the request's user data. A partial result
 * posts the rest from the same slot. The arena is registered if the kernel allows it
 * (RLIMIT_MEMLOCK), which avoids pinning its pages for every request.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/io/io.h"
#include "checkpoint/io/io_progress.h"
#include "checkpoint/io/io_steps.h"

#define NOBODY UINT64_MAX /* user data of a blanked entry that could not be submitted */

struct io_context {
    struct io_uring ring;
    const uint8_t *arena; /* NULL: not registered */
    size_t arena_bytes;
    unsigned depth, in_flight;
    struct io_progress *slots;
    unsigned *free_slots; /* stack of depth - in_flight indices */
};

static void uring_close(struct io_context *context)
{
    if (!context)
        return;
    uint64_t user;
    while (context->in_flight > 0) {
        if (io_uring_table()->drain(context, true, &user) == 0)
            break;
    }
    io_uring_queue_exit(&context->ring);
    free(context->slots);
    free(context->free_slots);
    free(context);
}

static int allocate(unsigned depth, struct io_context **ret_context)
{
    struct io_context *context = calloc(1, sizeof(*context));
    if (!context)
        return -ENOMEM;
    context->slots = calloc(depth, sizeof(*context->slots));
    context->free_slots = calloc(depth, sizeof(*context->free_slots));
    context->depth = depth;
    if (!context->slots || !context->free_slots) {
        free(context->slots);
        free(context->free_slots);
        free(context);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < depth; i++)
        context->free_slots[i] = i;
    *ret_context = context;
    return 0;
}

static int uring_open(unsigned depth, void *arena, size_t arena_bytes,
                      struct io_context **ret_context, struct error *error)
{
    if (depth == 0 || depth > IO_DEPTH_MAX)
        return error_set(error, -EINVAL, "io_uring: %u requests in flight (1 to %d are allowed)",
                         depth, IO_DEPTH_MAX);
    struct io_context *context;
    if (allocate(depth, &context) != 0)
        return error_set(error, -ENOMEM, "io_uring: out of memory");
    int status = io_uring_queue_init(depth, &context->ring, 0);
    if (status < 0) {
        free(context->slots);
        free(context->free_slots);
        free(context);
        return error_set(error, status, "io_uring: the kernel refuses a ring of %u entries: %s",
                         depth, strerror(-status));
    }
    struct iovec whole = {.iov_base = arena, .iov_len = arena_bytes};
    if (arena && io_uring_register_buffers(&context->ring, &whole, 1) == 0) {
        context->arena = arena;
        context->arena_bytes = arena_bytes;
    }
    *ret_context = context;
    return 0;
}

static bool in_arena(const struct io_context *context, const struct io_progress *slot)
{
    uintptr_t start = (uintptr_t)context->arena, at = (uintptr_t)slot->data;
    return context->arena && at >= start && at - start < context->arena_bytes &&
           slot->size_bytes <= context->arena_bytes - (at - start);
}

static void prepare(struct io_uring_sqe *entry, const struct io_progress *slot, bool fixed)
{
    unsigned size = (unsigned)slot->size_bytes;
    if (slot->reading && fixed)
        io_uring_prep_read_fixed(entry, slot->descriptor, slot->data, size, slot->offset, 0);
    else if (slot->reading)
        io_uring_prep_read(entry, slot->descriptor, slot->data, size, slot->offset);
    else if (fixed)
        io_uring_prep_write_fixed(entry, slot->descriptor, slot->data, size, slot->offset, 0);
    else
        io_uring_prep_write(entry, slot->descriptor, slot->data, size, slot->offset);
}

static int post(struct io_context *context, unsigned slot)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&context->ring);
    if (!entry)
        return -EBUSY; /* blanked entries of failed submissions still fill the ring */
    prepare(entry, &context->slots[slot], in_arena(context, &context->slots[slot]));
    io_uring_sqe_set_data64(entry, slot);
    int status = 0;
    for (unsigned i = 0; i < IO_RETRIES_MAX; i++) {
        status = io_uring_submit(&context->ring);
        if (status != -EINTR && status != -EAGAIN && status != -EBUSY)
            break;
    }
    if (status >= 0)
        return 0;
    io_uring_prep_nop(entry);
    io_uring_sqe_set_data64(entry, NOBODY);
    return status;
}

static int start(struct io_context *context, const struct io_progress *progress)
{
    assert(progress->size_bytes > 0 && progress->size_bytes <= INT32_MAX);
    if (context->in_flight == context->depth)
        return -EAGAIN;
    unsigned slot = context->free_slots[context->depth - context->in_flight - 1];
    context->slots[slot] = *progress;
    int status = post(context, slot);
    if (status == 0)
        context->in_flight++;
    return status;
}

static int uring_write(struct io_context *context, int descriptor, const void *data,
                       size_t size_bytes, uint64_t offset, uint64_t user)
{
    struct io_progress write = io_progress_start(descriptor, data, size_bytes, offset, user);
    return start(context, &write);
}

static int uring_read(struct io_context *context, int descriptor, void *ret_data, size_t room_bytes,
                      size_t needed_bytes, uint64_t offset, uint64_t user)
{
    struct io_progress read =
        io_progress_start_read(descriptor, ret_data, room_bytes, needed_bytes, offset, user);
    return start(context, &read);
}

/* Return 1 with the result of @ret_slot; 0: none yet, and @wait is false. */
static int next_result(struct io_context *context, bool wait, unsigned *ret_slot, int *ret_result)
{
    for (;;) {
        struct io_uring_cqe *entry;
        int status = wait ? io_uring_wait_cqe(&context->ring, &entry)
                          : io_uring_peek_cqe(&context->ring, &entry);
        if (status == -EAGAIN && !wait)
            return 0;
        if (status == -EINTR || status == -EAGAIN)
            continue;
        assert(status == 0); /* any other status means that the ring is invalid */
        uint64_t data = io_uring_cqe_get_data64(entry);
        *ret_slot = (unsigned)data;
        *ret_result = entry->res;
        io_uring_cqe_seen(&context->ring, entry);
        if (data != NOBODY)
            return 1;
    }
}

static void release(struct io_context *context, unsigned slot)
{
    context->in_flight--;
    context->free_slots[context->depth - context->in_flight - 1] = slot;
}

static int uring_drain(struct io_context *context, bool wait, uint64_t *ret_user)
{
    while (context->in_flight > 0) {
        unsigned slot;
        int result;
        if (next_result(context, wait, &slot, &result) == 0)
            return 0;
        int status = io_progress_accept(&context->slots[slot], result);
        if (status == IO_PROGRESS_AGAIN)
            status = post(context, slot);
        else if (status == IO_PROGRESS_DONE)
            status = 1;
        if (status == 0)
            continue;
        *ret_user = context->slots[slot].user;
        release(context, slot);
        return status;
    }
    return 0;
}

const struct io *io_uring_table(void)
{
    static const struct io table = {
        .name = "io_uring",
        .open = uring_open,
        .close = uring_close,
        .create = io_step_create,
        .write = uring_write,
        .read = uring_read,
        .drain = uring_drain,
        .truncate = io_step_truncate,
        .sync = io_step_sync,
        .close_file = io_step_close_file,
        .rename = io_step_rename,
        .link = io_step_link,
        .sync_directory = io_step_sync_directory,
        .make_directory = io_step_make_directory,
        .unlink = io_step_unlink,
        .reserve = io_step_reserve,
    };
    return &table;
}
