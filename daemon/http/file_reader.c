#include "daemon/http/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS       2   /* so that one slow file does not delay all others */
#define DONE_PER_TURN 8   /* per turn of the loop, which sends the data */
#define WAITING_MAX   256 /* half of the connections */

struct queue {
    struct file_task *first, **end;
};

struct file_reader {
    pthread_t threads[THREADS];
    unsigned thread_count;
    pthread_mutex_t lock; /* guards the members up to the condition */
    struct queue wanted, read;
    unsigned waiting; /* in `wanted` */
    bool stopping;
    pthread_cond_t changed; /* signals `wanted` or `stopping` */
    int wake;               /* eventfd: a task is done */
    sd_event_source *source;
    void (*done)(void *context, struct file_task *task);
    void *context;
};

static void queue_put(struct queue *queue, struct file_task *task)
{
    task->next = NULL;
    *queue->end = task;
    queue->end = &task->next;
}

static struct file_task *queue_take(struct queue *queue)
{
    struct file_task *task = queue->first;

    if (task) {
        queue->first = task->next;
        if (!queue->first)
            queue->end = &queue->first;
    }
    return task;
}

static struct file_task *next_wanted(struct file_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    while (!reader->wanted.first && !reader->stopping)
        pthread_cond_wait(&reader->changed, &reader->lock);
    struct file_task *task = queue_take(&reader->wanted);
    reader->waiting -= task != NULL;
    pthread_mutex_unlock(&reader->lock);
    return task;
}

static void wake(struct file_reader *reader)
{
    uint64_t one = 1;
    ssize_t ignored = write(reader->wake, &one, sizeof(one)); /* full: already signalled */

    (void)ignored;
}

static void *run(void *argument)
{
    struct file_reader *reader = argument;
    struct file_task *task;

    while ((task = next_wanted(reader))) {
        task->run(task);
        pthread_mutex_lock(&reader->lock);
        queue_put(&reader->read, task);
        pthread_mutex_unlock(&reader->lock);
        wake(reader);
    }
    return NULL;
}

/* Hand back up to @most tasks. Return true if there may be more. */
static bool hand_back(struct file_reader *reader, unsigned most)
{
    for (; most > 0; most--) {
        pthread_mutex_lock(&reader->lock);
        struct file_task *task = queue_take(&reader->read);
        pthread_mutex_unlock(&reader->lock);
        if (!task)
            return false;
        reader->done(reader->context, task);
    }
    return true;
}

static int on_wake(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    struct file_reader *reader = context;
    uint64_t count;
    ssize_t ignored = read(descriptor, &count, sizeof(count));

    (void)ignored;
    (void)source;
    (void)events;
    if (hand_back(reader, DONE_PER_TURN))
        wake(reader);
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
    while (status >= 0 && reader->thread_count < THREADS) {
        status = -pthread_create(&reader->threads[reader->thread_count], NULL, run, reader);
        reader->thread_count += status == 0;
    }
    return status < 0 ? status : 0;
}

static void end_threads(struct file_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    reader->stopping = true;
    pthread_cond_broadcast(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    for (unsigned i = 0; i < reader->thread_count; i++)
        pthread_join(reader->threads[i], NULL);
}

static void release(struct file_reader *reader)
{
    sd_event_source_disable_unref(reader->source);
    close_descriptor(&reader->wake);
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}

int file_reader_start(struct event_loop *loop, void (*done)(void *context, struct file_task *task),
                      void *context, struct file_reader **ret_reader, struct error *error)
{
    struct file_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return error_set(error, -ENOMEM, "no memory to serve files");
    reader->done = done;
    reader->context = context;
    int status = prepare(reader, loop);
    if (status) {
        end_threads(reader);
        release(reader);
        return error_set(error, status, "serving files: %s", strerror(-status));
    }
    *ret_reader = reader;
    return 0;
}

void file_reader_stop(struct file_reader *reader)
{
    if (!reader)
        return;
    end_threads(reader);
    while (hand_back(reader, DONE_PER_TURN))
        continue;
    release(reader);
}

bool file_reader_has_room(struct file_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    bool has_room = reader->waiting < WAITING_MAX;
    pthread_mutex_unlock(&reader->lock);
    return has_room;
}

void file_reader_queue(struct file_reader *reader, struct file_task *task)
{
    pthread_mutex_lock(&reader->lock);
    queue_put(&reader->wanted, task);
    reader->waiting++;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
}
