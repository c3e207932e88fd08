/* firnd's sd-event loop, lent to membership/ as its `struct loop`. */
#pragma once

#include <systemd/sd-event.h>

#include "base/clock.h"
#include "membership/transport/loop.h"

#define LOOP_TURN_SLOW_NS (50 * NS_PER_MS)

/* Durations of the loop's turns: how long one turn delays other events. */
struct loop_turns {
    uint64_t longest_ns;
    uint64_t longest_busy_ns; /* CPU time only: other programs used the rest */
    uint64_t slow_count;      /* turns of LOOP_TURN_SLOW_NS or more */
};

struct event_loop {
    sd_event *event;
    struct loop loop; /* its context is this object */
    struct loop_turns turns;
};

/** event_loop_init() - Return: 0, or the error of sd_event_new() (nothing to free then) */
int event_loop_init(struct event_loop *loop) CHECK_RESULT;
/** event_loop_run() - run until sd_event_exit(). Return: its code, or negative errno */
int event_loop_run(struct event_loop *loop) CHECK_RESULT;
void event_loop_done(struct event_loop *loop);
