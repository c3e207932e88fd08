#include "membership/transport/timer.h"

#include <string.h>

#include "base/log.h"

int timer_init(struct timer *timer, const struct loop *loop, void (*fired)(void *user), void *user)
{
    struct loop_timer *added;
    int status = loop->timer_add(loop->context, UINT64_MAX, fired, user, &added);
    if (status < 0)
        return status;
    *timer = (struct timer){.loop = loop, .timer = added};
    return 0;
}

void timer_done(struct timer *timer)
{
    if (timer->timer)
        timer->loop->timer_remove(timer->loop->context, timer->timer);
    *timer = (struct timer){0};
}

void timer_set_at(struct timer *timer, uint64_t at_ns)
{
    int status = timer->loop->timer_set(timer->loop->context, timer->timer, at_ns);
    if (status < 0) /* moving an existing timer takes no memory, so the loop itself has failed */
        log_error("a timer of the event loop cannot be set: %s", strerror(-status));
}

void timer_set_in(struct timer *timer, uint64_t delay_ns)
{
    uint64_t at_ns;
    if (__builtin_add_overflow(timer->loop->now_ns(timer->loop->context), delay_ns, &at_ns))
        at_ns = UINT64_MAX;
    timer_set_at(timer, at_ns);
}

void timer_clear(struct timer *timer)
{
    timer_set_at(timer, UINT64_MAX);
}
