/*
 * Write and read with pwrite and pread on a few threads, for machines that do not allow io_uring.
 *
 * Slots circulate through two queues under one lock: posted (threads take from it) and finished
 * (drain takes from it). A slot is in one queue at a time, so rings of depth entries cannot
 * overflow.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/io/io.h"
#include "checkpoint/io/io_progress.h"
#include "checkpoint/io/io_steps.h"

#define THREADS_MAX 8

struct slot {
    struct io_progress progress;
    int result; /* 0 or negative errno, once finished */
};

struct queue {
    struct slot **slots; /* a ring of capacity entries */
    unsigned capacity, first, count;
};

struct io_context {
    pthread_mutex_t lock;
    pthread_cond_t posted_changed, finished_changed;
    struct queue idle, posted, finished;
    struct slot *slots;
    /* outstanding: posted, in progress or finished, not yet drained */
    unsigned depth, outstanding;
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
    bool stopping;
};

static void push(struct queue *queue, struct slot *slot)
{
    assert(queue->count < queue->capacity);
    queue->slots[(queue->first + queue->count++) % queue->capacity] = slot;
}

static struct slot *pop(struct queue *queue)
{
    assert(queue->count > 0);
    struct slot *slot = queue->slots[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->count--;
    return slot;
}

static int carry_out(struct io_progress *at)
{
    int status;
    do {
        ssize_t n = at->reading
                        ? pread(at->descriptor, at->data, at->size_bytes, (off_t)at->offset)
                        : pwrite(at->descriptor, at->data, at->size_bytes, (off_t)at->offset);
        status = io_progress_accept(at, n < 0 ? -errno : n);
    } while (status == IO_PROGRESS_AGAIN);
    return status;
}

static void *thread_main(void *argument)
{
    struct io_context *context = argument;
    pthread_mutex_lock(&context->lock);
    for (;;) {
        while (context->posted.count == 0 && !context->stopping)
            pthread_cond_wait(&context->posted_changed, &context->lock);
        if (context->posted.count == 0)
            break;
        struct slot *slot = pop(&context->posted);
        pthread_mutex_unlock(&context->lock);
        int result = carry_out(&slot->progress);
        pthread_mutex_lock(&context->lock);
        slot->result = result;
        push(&context->finished, slot);
        pthread_cond_signal(&context->finished_changed);
    }
    pthread_mutex_unlock(&context->lock);
    return NULL;
}

static void threads_close(struct io_context *context)
{
    if (!context)
        return;
    pthread_mutex_lock(&context->lock);
    context->stopping = true;
    pthread_cond_broadcast(&context->posted_changed);
    pthread_mutex_unlock(&context->lock);
    for (unsigned i = 0; i < context->thread_count; i++)
        pthread_join(context->threads[i], NULL);
    pthread_mutex_destroy(&context->lock);
    pthread_cond_destroy(&context->posted_changed);
    pthread_cond_destroy(&context->finished_changed);
    free(context->idle.slots);
    free(context->posted.slots);
    free(context->finished.slots);
    free(context->slots);
    free(context);
}

static int make_queue(struct queue *queue, unsigned capacity)
{
    *queue = (struct queue){.slots = calloc(capacity, sizeof(struct slot *)), .capacity = capacity};
    return queue->slots ? 0 : -ENOMEM;
}

static int make_slots(struct io_context *context)
{
    context->slots = calloc(context->depth, sizeof(*context->slots));
    if (!context->slots || make_queue(&context->idle, context->depth) != 0 ||
        make_queue(&context->posted, context->depth) != 0 ||
        make_queue(&context->finished, context->depth) != 0)
        return -ENOMEM;
    for (unsigned i = 0; i < context->depth; i++)
        push(&context->idle, &context->slots[i]);
    return 0;
}

/* Block signals: the process's main thread handles them. */
static int start_threads(struct io_context *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = 0;
    unsigned wanted = MIN(context->depth, (unsigned)THREADS_MAX);
    while (context->thread_count < wanted && status == 0) {
        status =
            -pthread_create(&context->threads[context->thread_count], NULL, thread_main, context);
        if (status == 0)
            context->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return context->thread_count > 0 ? 0 : status; /* fewer threads than wanted suffice */
}

static int threads_open(unsigned depth, void *arena, size_t arena_bytes,
                        struct io_context **ret_context, struct error *error)
{
    (void)arena;
    (void)arena_bytes;
    if (depth == 0 || depth > IO_DEPTH_MAX)
        return error_set(error, -EINVAL, "threads: %u requests in flight (1 to %d are allowed)",
                         depth, IO_DEPTH_MAX);
    struct io_context *context = calloc(1, sizeof(*context));
    if (!context)
        return error_set(error, -ENOMEM, "threads: out of memory");
    context->depth = depth;
    pthread_mutex_init(&context->lock, NULL);
    pthread_cond_init(&context->posted_changed, NULL);
    pthread_cond_init(&context->finished_changed, NULL);
    int status = make_slots(context);
    if (status == 0)
        status = start_threads(context);
    if (status != 0) {
        threads_close(context);
        return error_set(error, status, "threads: cannot start: %s", strerror(-status));
    }
    *ret_context = context;
    return 0;
}

static int start(struct io_context *context, const struct io_progress *progress)
{
    pthread_mutex_lock(&context->lock);
    bool full = context->idle.count == 0;
    if (!full) {
        struct slot *slot = pop(&context->idle);
        slot->progress = *progress;
        push(&context->posted, slot);
        context->outstanding++;
        pthread_cond_signal(&context->posted_changed);
    }
    pthread_mutex_unlock(&context->lock);
    return full ? -EAGAIN : 0;
}

static int threads_write(struct io_context *context, int descriptor, const void *data,
                         size_t size_bytes, uint64_t offset, uint64_t user)
{
    assert(size_bytes > 0);
    struct io_progress write = io_progress_start(descriptor, data, size_bytes, offset, user);
    return start(context, &write);
}

static int threads_read(struct io_context *context, int descriptor, void *ret_data,
                        size_t room_bytes, size_t needed_bytes, uint64_t offset, uint64_t user)
{
    assert(needed_bytes > 0 && needed_bytes <= room_bytes);
    struct io_progress read =
        io_progress_start_read(descriptor, ret_data, room_bytes, needed_bytes, offset, user);
    return start(context, &read);
}

static int threads_drain(struct io_context *context, bool wait, uint64_t *ret_user)
{
    int status = 0;
    pthread_mutex_lock(&context->lock);
    while (wait && context->outstanding > 0 && context->finished.count == 0)
        pthread_cond_wait(&context->finished_changed, &context->lock);
    if (context->finished.count > 0) {
        struct slot *slot = pop(&context->finished);
        context->outstanding--;
        *ret_user = slot->progress.user;
        status = slot->result < 0 ? slot->result : 1;
        push(&context->idle, slot);
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

const struct io *io_threads_table(void)
{
    static const struct io table = {
        .name = "threads",
        .open = threads_open,
        .close = threads_close,
        .create = io_step_create,
        .write = threads_write,
        .read = threads_read,
        .drain = threads_drain,
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
