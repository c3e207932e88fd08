#include "daemon/core/errand.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"

/* Owned by the loop's thread and its own thread; the last owner frees it. */
struct task {
    atomic_uint owners;
    atomic_bool is_done;
    int ended; /* eventfd */
    struct errand_work work;
    void *load;
};

struct errand {
    const struct loop *loop;
    void (*ended)(void *user);
    void *user;
    struct task *task;  /* NULL: none */
    struct loop_io *io; /* NULL: no work is under way */
    uint64_t began_ns, ended_ns;
};

static void let_go(struct task *task)
{
    if (!task || atomic_fetch_sub(&task->owners, 1) != 1)
        return;
    if (task->ended >= 0)
        close(task->ended);
    task->work.drop(task->load);
    free(task);
}

static void *run(void *argument)
{
    struct task *task = argument;

    task->work.run(task->load);
    atomic_store(&task->is_done, true);
    (void)eventfd_write(task->ended, 1); /* the only write, so it succeeds */
    let_go(task);
    return NULL;
}

static void on_ended(void *user, int descriptor, unsigned events)
{
    struct errand *errand = user;

    (void)descriptor;
    (void)events;
    if (!atomic_load(&errand->task->is_done)) /* always true; makes the thread's writes visible */
        return;
    errand->loop->io_remove(errand->loop->context, errand->io);
    errand->io = NULL;
    errand->ended_ns = errand->loop->now_ns(errand->loop->context);
    errand->ended(errand->user);
}

int errand_start(struct errand *errand, const struct errand_work *work, void *load)
{
    const struct loop *loop = errand->loop;
    struct task *task = calloc(1, sizeof(*task));

    errand_forget(errand);
    if (!task) {
        work->drop(load);
        return -ENOMEM;
    }
    atomic_init(&task->owners, 1);
    task->work = *work;
    task->load = load;
    task->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    errand->task = task;
    errand->began_ns = loop->now_ns(loop->context);
    int status = task->ended < 0 ? -errno
                                 : loop->io_add(loop->context, task->ended, LOOP_READ, on_ended,
                                                errand, &errand->io);
    if (!status) {
        atomic_store(&task->owners, 2);
        status = thread_start_detached(run, task);
        if (status)
            atomic_store(&task->owners, 1);
    }
    if (status)
        errand_forget(errand);
    return status;
}

bool errand_runs(const struct errand *errand)
{
    return errand->io != NULL;
}

uint64_t errand_age_ns(const struct errand *errand)
{
    return errand->loop->now_ns(errand->loop->context) -
           (errand_runs(errand) ? errand->began_ns : errand->ended_ns);
}

void *errand_result(const struct errand *errand)
{
    return errand->task && !errand_runs(errand) ? errand->task->load : NULL;
}

void *errand_take(struct errand *errand)
{
    void *load = errand_result(errand);

    if (load)
        errand->task->load = NULL; /* safe: the thread has ended its work */
    errand_forget(errand);
    return load;
}

void errand_forget(struct errand *errand)
{
    if (errand->io)
        errand->loop->io_remove(errand->loop->context, errand->io);
    errand->io = NULL;
    let_go(errand->task);
    errand->task = NULL;
}

struct errand *errand_new(const struct loop *loop, void (*ended)(void *user), void *user)
{
    struct errand *errand = calloc(1, sizeof(*errand));

    if (errand)
        *errand = (struct errand){.loop = loop, .ended = ended, .user = user};
    return errand;
}

void errand_free(struct errand *errand)
{
    if (errand)
        errand_forget(errand);
    free(errand);
}
