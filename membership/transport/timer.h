/* A timer of a loop that is made once and then set and cleared at will, without failing. */
#pragma once

#include "membership/transport/loop.h"

struct alarm {
    const struct loop *loop;
    struct loop_timer *timer;
};

/** alarm_init() - not set yet. Return: 0, or what the loop's timer_add() returned (nothing to undo)
 */
int alarm_init(struct alarm *alarm, const struct loop *loop, void (*fired)(void *user),
               void *user) CHECK_RESULT;
void alarm_done(struct alarm *alarm); /* also of a zeroed alarm */

/** alarm_set_in(), alarm_set_at() - fire once then; replaces what was set before */
void alarm_set_in(struct alarm *alarm, uint64_t delay_ns);
void alarm_set_at(struct alarm *alarm, uint64_t at_ns);
void alarm_clear(struct alarm *alarm);
