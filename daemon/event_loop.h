/* firnd's sd-event loop, lent to membership/ as its `struct loop`. */
#pragma once

#include <systemd/sd-event.h>

#include "membership/loop.h"

struct event_loop {
    sd_event *event;
    struct loop loop; /* its context is this object */
};

/** event_loop_init() - Return: 0, or what sd_event_new() returned (nothing is left to free) */
int event_loop_init(struct event_loop *loop) CHECK_RESULT;
void event_loop_done(struct event_loop *loop);
