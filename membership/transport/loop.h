/*
 * The functions that membership needs from an event loop, as a table, so that firnd can lend its
 * sd-event loop, firnctl a small poll loop (membership/transport/poll_loop.h) and the simulator its
 * own.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"

struct loop_io;    /* a watched descriptor */
struct loop_timer; /* a one-shot timer */

#define LOOP_READ  1u
#define LOOP_WRITE 2u

struct loop {
    void *context;
    /* events: LOOP_READ | LOOP_WRITE; called until io_remove() */
    int (*io_add)(void *context, int descriptor, unsigned events,
                  void (*ready)(void *user, int descriptor, unsigned events), void *user,
                  struct loop_io **ret_io) CHECK_RESULT;
    int (*io_set)(void *context, struct loop_io *io, unsigned events) CHECK_RESULT;
    void (*io_remove)(void *context, struct loop_io *io);
    /* fires once at @at_ns (monotonic; UINT64_MAX: never), and again only after timer_set();
     * timer_remove() before or after */
    int (*timer_add)(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                     struct loop_timer **ret_timer) CHECK_RESULT;
    int (*timer_set)(void *context, struct loop_timer *timer, uint64_t at_ns) CHECK_RESULT;
    void (*timer_remove)(void *context, struct loop_timer *timer);
    uint64_t (*now_ns)(void *context); /* monotonic */
};
