#include "daemon/leader/folder_look.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "checkpoint/read/reader.h"

#define FOLDER_PATH_SIZE 1024
#define FRESH_NS         (10 * NS_PER_SECOND) /* an older result is not taken */

/* Owned by the loop's thread and by its own, whichever lets go last. */
struct task {
    atomic_uint owners;
    char path[FOLDER_PATH_SIZE];
    int ended; /* eventfd */
    atomic_bool is_done;
    int status;
    struct error error;
    uint64_t began_ns;
};

struct folder_look {
    const struct loop *loop;
    void (*ended)(void *user);
    void *user;
    struct task *task; /* NULL: none */
    struct loop_io *io;
};

static void let_go(struct task *task)
{
    if (!task || atomic_fetch_sub(&task->owners, 1) != 1)
        return;
    close(task->ended);
    free(task);
}

static void *look(void *argument)
{
    struct task *task = argument;
    const uint64_t one = 1;

    task->status = checkpoint_look(task->path, &task->error);
    atomic_store(&task->is_done, true);
    if (write(task->ended, &one, sizeof(one)) < 0) /* an eventfd takes it */
        task->status = -errno;
    let_go(task);
    return NULL;
}

static void on_ended(void *user, int descriptor, unsigned events)
{
    struct folder_look *look = user;

    (void)descriptor;
    (void)events;
    look->loop->io_remove(look->loop->context, look->io);
    look->io = NULL;
    look->ended(look->user);
}

static void forget(struct folder_look *look)
{
    if (look->io)
        look->loop->io_remove(look->loop->context, look->io);
    look->io = NULL;
    let_go(look->task);
    look->task = NULL;
}

static int start_thread(struct task *task)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int status = pthread_attr_init(&attributes);

    if (status)
        return -status;
    status = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (!status)
        status = pthread_create(&thread, &attributes, look, task);
    pthread_attr_destroy(&attributes);
    return -status;
}

static int begin(struct folder_look *look, const char *path)
{
    const struct loop *loop = look->loop;
    struct task *task = calloc(1, sizeof(*task));

    if (!task)
        return -ENOMEM;
    atomic_init(&task->owners, 1);
    task->began_ns = loop->now_ns(loop->context);
    snprintf(task->path, sizeof(task->path), "%s", path);
    task->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    look->task = task;
    int status = task->ended < 0 ? -errno
                                 : loop->io_add(loop->context, task->ended, LOOP_READ, on_ended,
                                                look, &look->io);
    if (!status) {
        atomic_store(&task->owners, 2);
        status = start_thread(task);
        if (status)
            atomic_store(&task->owners, 1);
    }
    if (status)
        forget(look);
    return status;
}

struct folder_look *folder_look_new(const struct loop *loop, void (*ended)(void *user), void *user)
{
    struct folder_look *look = calloc(1, sizeof(*look));

    if (look)
        *look = (struct folder_look){.loop = loop, .ended = ended, .user = user};
    return look;
}

void folder_look_free(struct folder_look *look)
{
    if (look)
        forget(look);
    free(look);
}

/* Return the time since the task began. */
static uint64_t age_ns(const struct folder_look *look)
{
    return look->loop->now_ns(look->loop->context) - look->task->began_ns;
}

bool folder_look_at(struct folder_look *look, const char *path, int *ret_status,
                    struct error *error)
{
    bool is_done = look->task && atomic_load(&look->task->is_done);

    if (is_done && (strcmp(look->task->path, path) != 0 || age_ns(look) > FRESH_NS)) {
        forget(look);
        is_done = false;
    }
    if (!look->task) {
        *ret_status = begin(look, path);
        if (*ret_status)
            error_set(error, *ret_status, "looking at %s: %s", path, strerror(-*ret_status));
        return *ret_status != 0;
    }
    if (is_done) {
        *ret_status = look->task->status;
        *error = look->task->error;
        forget(look);
        return true;
    }
    if (age_ns(look) < FOLDER_LOOK_NS)
        return false;
    *ret_status =
        error_set(error, -ETIMEDOUT, "%s: its disk or file server has not answered for %.0f s",
                  look->task->path, (double)age_ns(look) / 1e9);
    return true;
}
