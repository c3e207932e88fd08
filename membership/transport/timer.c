#include "membership/transport/timer.h"

#include <string.h>

#include "base/log.h"

int timer_init(struct timer *alarm, const struct loop *loop, void (*fired)(void *user), void *user)
{
    struct loop_timer *timer;
    int status = loop->timer_add(loop->context, UINT64_MAX, fired, user, &timer);
    if (status < 0)
        return status;
    *alarm = (struct timer){.loop = loop, .timer = timer};
    return 0;
}

void timer_done(struct timer *alarm)
{
    if (alarm->timer)
        alarm->loop->timer_remove(alarm->loop->context, alarm->timer);
    *alarm = (struct timer){0};
}

void timer_set_at(struct timer *alarm, uint64_t at_ns)
{
    int status = alarm->loop->timer_set(alarm->loop->context, alarm->timer, at_ns);
    if (status < 0) /* moving a timer that exists takes no memory, so this is the loop's end */
        log_error("a timer of the event loop cannot be set: %s", strerror(-status));
}

void timer_set_in(struct timer *alarm, uint64_t delay_ns)
{
    uint64_t at_ns;
    if (__builtin_add_overflow(alarm->loop->now_ns(alarm->loop->context), delay_ns, &at_ns))
        at_ns = UINT64_MAX;
    timer_set_at(alarm, at_ns);
}

void timer_clear(struct timer *alarm)
{
    timer_set_at(alarm, UINT64_MAX);
}
