#include "daemon/core/event_loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"

#define ACCURACY_US 1000

struct loop_io {
    sd_event_source *source;
    void (*ready)(void *user, int descriptor, unsigned events);
    void *user;
};

struct loop_timer {
    sd_event_source *source;
    void (*fired)(void *user);
    void *user;
};

static uint32_t to_epoll(unsigned events)
{
    return (events & LOOP_READ ? (uint32_t)EPOLLIN : 0) |
           (events & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0);
}

static int on_io(sd_event_source *source, int descriptor, uint32_t events, void *context)
{
    struct loop_io *io = context;
    unsigned ready = 0;

    (void)source;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        ready |= LOOP_READ;
    if (events & (EPOLLOUT | EPOLLERR))
        ready |= LOOP_WRITE;
    io->ready(io->user, descriptor, ready);
    return 0;
}

static int add_io(void *context, int descriptor, unsigned events,
                  void (*ready)(void *user, int descriptor, unsigned events), void *user,
                  struct loop_io **ret_io)
{
    struct event_loop *loop = context;
    struct loop_io *io = calloc(1, sizeof(*io));
    int status;

    if (!io)
        return -ENOMEM;
    io->ready = ready;
    io->user = user;
    status = sd_event_add_io(loop->event, &io->source, descriptor, to_epoll(events), on_io, io);
    if (status < 0) {
        free(io);
        return status;
    }
    *ret_io = io;
    return 0;
}

static int set_io(void *context, struct loop_io *io, unsigned events)
{
    (void)context;
    return sd_event_source_set_io_events(io->source, to_epoll(events));
}

static void remove_io(void *context, struct loop_io *io)
{
    (void)context;
    if (!io)
        return;
    sd_event_source_disable_unref(io->source);
    free(io);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *context)
{
    struct loop_timer *timer = context;

    (void)source;
    (void)usec;
    timer->fired(timer->user);
    return 0;
}

static int set_timer(void *context, struct loop_timer *timer, uint64_t at_ns)
{
    int status = 0;

    (void)context;
    if (at_ns == UINT64_MAX)
        return sd_event_source_set_enabled(timer->source, SD_EVENT_OFF);
    status = sd_event_source_set_time(timer->source, at_ns / NS_PER_US);
    return status < 0 ? status : sd_event_source_set_enabled(timer->source, SD_EVENT_ONESHOT);
}

static void remove_timer(void *context, struct loop_timer *timer)
{
    (void)context;
    if (!timer)
        return;
    sd_event_source_disable_unref(timer->source);
    free(timer);
}

static int add_timer(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                     struct loop_timer **ret_timer)
{
    struct event_loop *loop = context;
    struct loop_timer *timer = calloc(1, sizeof(*timer));
    int status;

    if (!timer)
        return -ENOMEM;
    timer->fired = fired;
    timer->user = user;
    status = sd_event_add_time(loop->event, &timer->source, CLOCK_MONOTONIC, 0, ACCURACY_US,
                               on_timer, timer);
    if (status >= 0)
        status = set_timer(context, timer, at_ns);
    if (status < 0) {
        remove_timer(context, timer);
        return status;
    }
    *ret_timer = timer;
    return 0;
}

static uint64_t now_ns(void *context)
{
    (void)context;
    return clock_monotonic_ns();
}

int event_loop_init(struct event_loop *loop)
{
    int status = sd_event_new(&loop->event);

    loop->turns = (struct loop_turns){0};
    loop->loop = (struct loop){
        .context = loop,
        .io_add = add_io,
        .io_set = set_io,
        .io_remove = remove_io,
        .timer_add = add_timer,
        .timer_set = set_timer,
        .timer_remove = remove_timer,
        .now_ns = now_ns,
    };
    return status < 0 ? status : 0;
}

static uint64_t busy_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* Do the same as sd_event_run() without a timeout, and measure the time. */
static int run_turn(struct event_loop *loop)
{
    int status = sd_event_prepare(loop->event);

    if (status == 0)
        status = sd_event_wait(loop->event, UINT64_MAX);
    if (status <= 0)
        return status;
    uint64_t begin_ns = clock_monotonic_ns(), begin_busy_ns = busy_ns();
    status = sd_event_dispatch(loop->event);
    uint64_t turn_ns = clock_monotonic_ns() - begin_ns;
    loop->turns.longest_ns = MAX(loop->turns.longest_ns, turn_ns);
    loop->turns.longest_busy_ns = MAX(loop->turns.longest_busy_ns, busy_ns() - begin_busy_ns);
    loop->turns.slow_count += turn_ns >= LOOP_TURN_SLOW_NS;
    return status;
}

int event_loop_run(struct event_loop *loop)
{
    int status = 0, code;

    while (status >= 0 && sd_event_get_state(loop->event) != SD_EVENT_FINISHED)
        status = run_turn(loop);
    if (status < 0)
        return status;
    status = sd_event_get_exit_code(loop->event, &code);
    return status < 0 ? status : code;
}

void event_loop_done(struct event_loop *loop)
{
    loop->event = sd_event_unref(loop->event);
}
