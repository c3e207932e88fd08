/* A timer of a loop, made once and then set and cleared at will, without failing. */
#pragma once

#include "membership/transport/loop.h"

struct timer {
    const struct loop *loop;
    struct loop_timer *timer;
};

/** timer_init() - make a timer that is not set. Return: 0, or the error of the loop's timer_add()
 * (nothing to undo)
 */
int timer_init(struct timer *timer, const struct loop *loop, void (*fired)(void *user),
               void *user) CHECK_RESULT;
void timer_done(struct timer *timer); /* a zeroed timer is allowed */

/** timer_set_in(), timer_set_at() - fire once at that time; replaces the earlier time */
void timer_set_in(struct timer *timer, uint64_t delay_ns);
void timer_set_at(struct timer *timer, uint64_t at_ns);
void timer_clear(struct timer *timer);
