/*
 * What is to leave over links once the device has brought it to the host.
 *
 * Problem: what a step makes is there only when the device has come so far, and the one thread that
 * may speak to the device must not wait for that while it could give it more to compute. Design: a
 * queue, first in, first out; an entry has its copies under way and a function that posts the
 * messages. It departs when somebody looks (send_queue_poll()) and the copies are there; whoever is
 * about to wait for another worker lets all of it go first (send_queue_flush()), because that
 * worker may be waiting for this one. A device never waits for a link; where it waits for a carrier
 * of its own memory, flushing ends by that one's guard (comm/carrier/carrier.h).
 *
 * What needs no copy on the host is never queued.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "worker/device/host_copy.h"

struct send_queue;

/** depart - post the messages; @index is the caller's. What it returns is what the queue's caller
 * gets */
typedef int (*depart_function)(void *context, unsigned index);

/** send_queue_new() - for at most @most entries at a time; -ENOMEM
 * @guard: the device may wait for what it carries; borrowed */
int send_queue_new(unsigned most, struct carrier *guard,
                   struct send_queue **ret_departures) CHECK_RESULT;
/** send_queue_free() - what has not departed does not; NULL allowed */
void send_queue_free(struct send_queue *departures);

/**
 * send_queue_add() - fetch @copies and then call @depart, at once where there is nothing to wait
 * for
 * @copies: @copy_count, at least one; borrowed until it has departed
 */
int send_queue_add(struct send_queue *departures, struct host_copy *copies, unsigned copy_count,
                   depart_function depart, void *context, unsigned index) CHECK_RESULT;

/** send_queue_poll() - let go what is there; 0 or the first failure of a depart function, after
 * which nothing departs any more */
int send_queue_poll(struct send_queue *departures) CHECK_RESULT;
/** send_queue_await() - host_copy_wait() under the guard, whose errors it returns */
int send_queue_await(const struct send_queue *departures,
                     const struct host_copy *copy) CHECK_RESULT;
/** send_queue_flush() - wait for the device and let everything go; errors of depart functions and
 * of the guard */
int send_queue_flush(struct send_queue *departures) CHECK_RESULT;
/** send_queue_flush_past() - the same up to the entry whose last copy is @copy */
int send_queue_flush_past(struct send_queue *departures, const struct host_copy *copy) CHECK_RESULT;
/** send_queue_drop() - forget what has not departed: the links have failed */
void send_queue_drop(struct send_queue *departures);
