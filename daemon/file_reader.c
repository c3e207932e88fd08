#include "daemon/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct queue {
    struct file_range *first, **end;
};

struct file_reader {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, up to the condition */
    struct queue wanted, read;
    bool stopping;
    pthread_cond_t changed; /* wanted or stopping */
    int wake;               /* eventfd: something was read */
    sd_event_source *source;
    void (*done)(void *context, struct file_range *range);
    void *context;
};

static void queue_put(struct queue *queue, struct file_range *range)
{
    range->next = NULL;
    *queue->end = range;
    queue->end = &range->next;
}

static struct file_range *queue_take(struct queue *queue)
{
    struct file_range *range = queue->first;

    if (range) {
        queue->first = range->next;
        if (!queue->first)
            queue->end = &queue->first;
    }
    return range;
}

static int read_range(struct file_range *range)
{
    AUTO_CLOSE int file = open(range->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    size_t done = 0;

    if (file < 0)
        return -errno;
    while (done < range->size_bytes) {
        ssize_t n = pread(file, range->data + done, range->size_bytes - done,
                          (off_t)(range->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    range->size_bytes = done;
    return 0;
}

static struct file_range *next_wanted(struct file_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    while (!reader->wanted.first && !reader->stopping)
        pthread_cond_wait(&reader->changed, &reader->lock);
    struct file_range *range = queue_take(&reader->wanted);
    pthread_mutex_unlock(&reader->lock);
    return range;
}

static void *run(void *argument)
{
    struct file_reader *reader = argument;
    struct file_range *range;
    uint64_t one = 1;

    while ((range = next_wanted(reader))) {
        range->status = read_range(range);
        pthread_mutex_lock(&reader->lock);
        queue_put(&reader->read, range);
        pthread_mutex_unlock(&reader->lock);
        ssize_t ignored = write(reader->wake, &one, sizeof(one)); /* full: it is awake already */
        (void)ignored;
    }
    return NULL;
}

static void hand_back(struct file_reader *reader)
{
    for (;;) {
        pthread_mutex_lock(&reader->lock);
        struct file_range *range = queue_take(&reader->read);
        pthread_mutex_unlock(&reader->lock);
        if (!range)
            return;
        reader->done(reader->context, range);
    }
}

static int on_wake(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    uint64_t count;
    ssize_t ignored = read(descriptor, &count, sizeof(count));

    (void)ignored;
    (void)source;
    (void)events;
    hand_back(context);
    return 0;
}

static int prepare(struct file_reader *reader, struct event_loop *loop)
{
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->changed, NULL);
    reader->wanted.end = &reader->wanted.first;
    reader->read.end = &reader->read.first;
    reader->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reader->wake < 0)
        return -errno;
    int status =
        sd_event_add_io(loop->event, &reader->source, reader->wake, EPOLLIN, on_wake, reader);
    return status < 0 ? status : -pthread_create(&reader->thread, NULL, run, reader);
}

static void release(struct file_reader *reader)
{
    sd_event_source_disable_unref(reader->source);
    close_descriptor(&reader->wake);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}

int file_reader_start(struct event_loop *loop,
                      void (*done)(void *context, struct file_range *range), void *context,
                      struct file_reader **ret_reader, struct error *error)
{
    struct file_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return error_set(error, -ENOMEM, "no memory to serve files of checkpoints");
    reader->done = done;
    reader->context = context;
    int status = prepare(reader, loop);
    if (status) {
        release(reader);
        return error_set(error, status, "serving files of checkpoints: %s", strerror(-status));
    }
    *ret_reader = reader;
    return 0;
}

void file_reader_stop(struct file_reader *reader)
{
    if (!reader)
        return;
    pthread_mutex_lock(&reader->lock);
    reader->stopping = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    pthread_join(reader->thread, NULL);
    hand_back(reader);
    release(reader);
}

void file_reader_queue(struct file_reader *reader, struct file_range *range)
{
    pthread_mutex_lock(&reader->lock);
    queue_put(&reader->wanted, range);
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}
