/*
 * The writer's thread and its states: idle -> running -> done or failed -> (polled) idle.
 * The share belongs to the thread in the running state, and to the caller's side otherwise.
 */
#include "checkpoint/write/writer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "checkpoint/write/share.h"

#define DEPTH_DEFAULT 8

enum writer_state { WRITER_IDLE, WRITER_RUNNING, WRITER_DONE, WRITER_FAILED };

struct checkpoint_writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    enum writer_state state;
    bool staged; /* the running share needs no tensor's memory any more */
    bool quitting;
    atomic_bool stop; /* the running share is given up; checked by the thread between blocks */
    struct share *share;
    struct staging staging;
    struct error failure;
};

static void mark_staged(void *context)
{
    struct checkpoint_writer *writer = context;
    pthread_mutex_lock(&writer->lock);
    writer->staged = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
}

static void *thread_main(void *argument)
{
    struct checkpoint_writer *writer = argument;
    pthread_setname_np(pthread_self(), "checkpoint");
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        while (writer->state != WRITER_RUNNING && !writer->quitting)
            pthread_cond_wait(&writer->changed, &writer->lock);
        if (writer->state != WRITER_RUNNING)
            break;
        pthread_mutex_unlock(&writer->lock);
        struct error failure = {0};
        int status = share_write(writer->share, &writer->staging, &writer->stop, mark_staged,
                                 writer, &failure);
        pthread_mutex_lock(&writer->lock);
        writer->failure = failure;
        writer->state = status == 0 ? WRITER_DONE : WRITER_FAILED;
        pthread_cond_broadcast(&writer->changed);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

static int check_options(const struct checkpoint_writer_options *options, size_t block_bytes,
                         struct error *error)
{
    if (options->arena_bytes < CHECKPOINT_ARENA_MIN)
        return error_set(error, -EINVAL, "a checkpoint arena of %zu bytes; at least %u are needed",
                         options->arena_bytes, CHECKPOINT_ARENA_MIN);
    if (options->depth > IO_DEPTH_MAX)
        return error_set(error, -EINVAL, "%u checkpoint writes in flight; at most %d",
                         options->depth, IO_DEPTH_MAX);
    if (block_bytes % SAFETENSORS_ALIGN != 0 || MANIFEST_CHUNK_BYTES % block_bytes != 0)
        return error_set(
            error, -EINVAL,
            "checkpoint blocks of %zu bytes; a multiple of %d that divides %u is needed",
            block_bytes, SAFETENSORS_ALIGN, MANIFEST_CHUNK_BYTES);
    return 0;
}

static void init_locks(struct checkpoint_writer *writer)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&writer->lock, NULL);
    pthread_cond_init(&writer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void free_writer(struct checkpoint_writer *writer)
{
    staging_done(&writer->staging);
    share_free(writer->share);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}

/* Block signals: the process's main thread handles them. */
static int start_thread(struct checkpoint_writer *writer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = -pthread_create(&writer->thread, NULL, thread_main, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

int checkpoint_writer_start(const struct checkpoint_writer_options *options,
                            struct checkpoint_writer **ret_writer, struct error *error)
{
    size_t block_bytes = options->block_bytes != 0 ? options->block_bytes : MANIFEST_CHUNK_BYTES;
    int status = check_options(options, block_bytes, error);
    if (status != 0)
        return status;
    struct checkpoint_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return error_set(error, -ENOMEM, "no memory for the checkpoint writer");
    init_locks(writer);
    unsigned depth = options->depth != 0 ? options->depth : DEPTH_DEFAULT;
    status = staging_init(&writer->staging, options->io, options->arena_bytes, block_bytes, depth,
                          error);
    if (status == 0) {
        status = start_thread(writer);
        if (status != 0)
            error_set(error, status, "cannot start the checkpoint thread: %s", strerror(-status));
    }
    if (status != 0)
        free_writer(writer);
    else
        *ret_writer = writer;
    return status;
}

void checkpoint_writer_stop(struct checkpoint_writer *writer)
{
    if (!writer)
        return;
    atomic_store(&writer->stop, true);
    pthread_mutex_lock(&writer->lock);
    writer->quitting = true;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    free_writer(writer);
}

int checkpoint_writer_begin(struct checkpoint_writer *writer, const struct checkpoint_share *share)
{
    struct share *prepared;
    pthread_mutex_lock(&writer->lock);
    bool busy = writer->state != WRITER_IDLE;
    pthread_mutex_unlock(&writer->lock);
    if (busy)
        return -EBUSY;
    int status = share_prepare(share, &prepared);
    if (status != 0)
        return status;
    pthread_mutex_lock(&writer->lock);
    writer->share = prepared;
    writer->staged = false;
    atomic_store(&writer->stop, writer->quitting);
    writer->state = WRITER_RUNNING;
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->lock);
    return 0;
}

static struct timespec time_of(uint64_t monotonic_ns)
{
    return (struct timespec){.tv_sec = (time_t)(monotonic_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(monotonic_ns % NS_PER_SECOND)};
}

bool checkpoint_writer_release_until(struct checkpoint_writer *writer, uint64_t deadline_ns)
{
    const struct timespec deadline = time_of(deadline_ns);
    int status = 0;
    pthread_mutex_lock(&writer->lock);
    while (writer->state == WRITER_RUNNING && !writer->staged && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&writer->changed, &writer->lock, &deadline);
    bool released = writer->state != WRITER_RUNNING || writer->staged;
    pthread_mutex_unlock(&writer->lock);
    return released;
}

uint64_t checkpoint_writer_release_wait(struct checkpoint_writer *writer)
{
    uint64_t began_ns = clock_monotonic_ns();
    if (checkpoint_writer_release_until(writer, began_ns))
        return 0;
    while (!checkpoint_writer_release_until(writer, clock_monotonic_ns() + NS_PER_SECOND))
        ;
    return clock_monotonic_ns() - began_ns;
}

void checkpoint_writer_give_up(struct checkpoint_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    if (writer->state == WRITER_RUNNING)
        atomic_store(&writer->stop, true);
    pthread_mutex_unlock(&writer->lock);
}

/* Call with the lock held; the writer is idle afterwards unless it is still running. */
static int collect(struct checkpoint_writer *writer, struct manifest *ret_part, struct error *error)
{
    if (writer->state == WRITER_IDLE || writer->state == WRITER_RUNNING)
        return 0;
    int status = 1;
    if (writer->state == WRITER_DONE)
        share_take_part(writer->share, ret_part);
    else
        status = error_set(error, writer->failure.code, "%s", writer->failure.text);
    share_free(writer->share);
    writer->share = NULL;
    writer->state = WRITER_IDLE;
    return status;
}

int checkpoint_writer_poll(struct checkpoint_writer *writer, struct manifest *ret_part,
                           struct error *error)
{
    pthread_mutex_lock(&writer->lock);
    int status = collect(writer, ret_part, error);
    pthread_mutex_unlock(&writer->lock);
    return status;
}

int checkpoint_writer_wait(struct checkpoint_writer *writer, uint64_t deadline_ns,
                           struct manifest *ret_part, struct error *error)
{
    const struct timespec deadline = time_of(deadline_ns);
    int status = 0;
    pthread_mutex_lock(&writer->lock);
    while (writer->state == WRITER_RUNNING && status != ETIMEDOUT)
        status = pthread_cond_timedwait(&writer->changed, &writer->lock, &deadline);
    if (writer->state == WRITER_RUNNING)
        status = error_set(error, -ETIMEDOUT, "the checkpoint is not written yet");
    else
        status = collect(writer, ret_part, error);
    pthread_mutex_unlock(&writer->lock);
    return status;
}
