/*
 * A loop on poll(2), for programs with a handful of descriptors.
 *
 * Callbacks may add and remove any entry, including their own. So no entry is freed during a round:
 * a removed entry is marked, and freed at the end of the round. New entries go to the head of their
 * list and are first polled in the next round.
 */
#include "membership/transport/poll_loop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"

struct loop_io {
    struct loop_io *next;
    int descriptor;
    unsigned events;
    void (*ready)(void *user, int descriptor, unsigned events);
    void *user;
    bool removed;
};

struct loop_timer {
    struct loop_timer *next;
    uint64_t at_ns; /* UINT64_MAX: not armed */
    void (*fired)(void *user);
    void *user;
    bool removed;
};

struct poll_loop {
    struct loop table;
    struct loop_io *ios;
    struct loop_timer *timers;
    struct pollfd *polled; /* rebuilt every round, in the order of `polled_ios` */
    struct loop_io **polled_ios;
    size_t io_count, polled_capacity;
};

static short poll_events(unsigned events)
{
    return (short)((events & LOOP_READ ? POLLIN : 0) | (events & LOOP_WRITE ? POLLOUT : 0));
}

static int io_add(void *context, int descriptor, unsigned events,
                  void (*ready)(void *user, int descriptor, unsigned events), void *user,
                  struct loop_io **ret_io)
{
    struct poll_loop *loop = context;
    struct loop_io *io = malloc(sizeof(*io));
    if (!io)
        return -ENOMEM;
    *io = (struct loop_io){.next = loop->ios,
                           .descriptor = descriptor,
                           .events = events,
                           .ready = ready,
                           .user = user};
    loop->ios = io;
    loop->io_count++;
    *ret_io = io;
    return 0;
}

static int io_set(void *context, struct loop_io *io, unsigned events)
{
    (void)context;
    io->events = events;
    return 0;
}

static void io_remove(void *context, struct loop_io *io)
{
    (void)context;
    if (io)
        io->removed = true;
}

static int timer_add(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                     struct loop_timer **ret_timer)
{
    struct poll_loop *loop = context;
    struct loop_timer *timer = malloc(sizeof(*timer));
    if (!timer)
        return -ENOMEM;
    *timer =
        (struct loop_timer){.next = loop->timers, .at_ns = at_ns, .fired = fired, .user = user};
    loop->timers = timer;
    *ret_timer = timer;
    return 0;
}

static int timer_set(void *context, struct loop_timer *timer, uint64_t at_ns)
{
    (void)context;
    timer->at_ns = at_ns;
    return 0;
}

static void timer_remove(void *context, struct loop_timer *timer)
{
    (void)context;
    if (timer)
        timer->removed = true;
}

static uint64_t now_ns(void *context)
{
    (void)context;
    return clock_monotonic_ns();
}

struct poll_loop *poll_loop_new(void)
{
    struct poll_loop *loop = calloc(1, sizeof(*loop));
    if (!loop)
        return NULL;
    loop->table = (struct loop){.context = loop,
                                .io_add = io_add,
                                .io_set = io_set,
                                .io_remove = io_remove,
                                .timer_add = timer_add,
                                .timer_set = timer_set,
                                .timer_remove = timer_remove,
                                .now_ns = now_ns};
    return loop;
}

static void sweep(struct poll_loop *loop, bool everything)
{
    for (struct loop_io **at = &loop->ios; *at;) {
        struct loop_io *io = *at;
        if (!io->removed && !everything) {
            at = &io->next;
            continue;
        }
        *at = io->next;
        loop->io_count--;
        free(io);
    }
    for (struct loop_timer **at = &loop->timers; *at;) {
        struct loop_timer *timer = *at;
        if (!timer->removed && !everything) {
            at = &timer->next;
            continue;
        }
        *at = timer->next;
        free(timer);
    }
}

void poll_loop_free(struct poll_loop *loop)
{
    if (!loop)
        return;
    sweep(loop, true);
    free(loop->polled);
    free(loop->polled_ios);
    free(loop);
}

const struct loop *poll_loop_table(struct poll_loop *loop)
{
    return &loop->table;
}

static int reserve(struct poll_loop *loop)
{
    if (loop->io_count <= loop->polled_capacity)
        return 0;
    struct pollfd *polled = reallocarray(loop->polled, loop->io_count, sizeof(*polled));
    if (!polled)
        return -ENOMEM;
    loop->polled = polled;
    struct loop_io **ios = reallocarray(loop->polled_ios, loop->io_count, sizeof(*ios));
    if (!ios)
        return -ENOMEM;
    loop->polled_ios = ios;
    loop->polled_capacity = loop->io_count;
    return 0;
}

/* Return the time until the first timer or the deadline, rounded up: no timer may fire early. */
static struct timespec time_to_wait(const struct poll_loop *loop, uint64_t deadline_ns)
{
    uint64_t at_ns = deadline_ns, now = clock_monotonic_ns();
    for (const struct loop_timer *timer = loop->timers; timer; timer = timer->next)
        at_ns = MIN(at_ns, timer->at_ns);
    uint64_t wait_ns = at_ns > now ? at_ns - now : 0;
    return (struct timespec){.tv_sec = (time_t)(wait_ns / NS_PER_SECOND),
                             .tv_nsec = (long)(wait_ns % NS_PER_SECOND)};
}

static unsigned loop_events(const struct loop_io *io, short polled)
{
    /* A hang-up or an error shows when the descriptor is read or written: report all
     * requested events. */
    if (polled & (POLLERR | POLLHUP | POLLNVAL))
        return io->events;
    return (polled & POLLIN ? LOOP_READ : 0) | (polled & POLLOUT ? LOOP_WRITE : 0);
}

static int poll_round(struct poll_loop *loop, uint64_t deadline_ns)
{
    int status = reserve(loop);
    if (status < 0)
        return status;
    nfds_t count = 0;
    for (struct loop_io *io = loop->ios; io; io = io->next) {
        if (io->events == 0)
            continue;
        loop->polled_ios[count] = io;
        loop->polled[count++] =
            (struct pollfd){.fd = io->descriptor, .events = poll_events(io->events)};
    }
    struct timespec wait = time_to_wait(loop, deadline_ns);
    int ready = ppoll(loop->polled, count, &wait, NULL);
    if (ready < 0 && errno != EINTR)
        return -errno;
    for (nfds_t i = 0; ready > 0 && i < count; i++) {
        struct loop_io *io = loop->polled_ios[i];
        unsigned events = loop_events(io, loop->polled[i].revents);
        if (loop->polled[i].revents != 0 && !io->removed && events != 0)
            io->ready(io->user, io->descriptor, events);
    }
    return 0;
}

static void fire_timers(struct poll_loop *loop)
{
    uint64_t now = clock_monotonic_ns();
    for (struct loop_timer *timer = loop->timers; timer; timer = timer->next) {
        if (timer->removed || timer->at_ns > now)
            continue;
        timer->at_ns = UINT64_MAX;
        timer->fired(timer->user);
    }
}

int poll_loop_run(struct poll_loop *loop, const bool *done, uint64_t deadline_ns)
{
    for (;;) {
        sweep(loop, false);
        if (*done)
            return 0;
        if (clock_monotonic_ns() >= deadline_ns)
            return -ETIMEDOUT;
        int status = poll_round(loop, deadline_ns);
        if (status < 0)
            return status;
        fire_timers(loop);
    }
}
