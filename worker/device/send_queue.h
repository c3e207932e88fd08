/*
 * Messages that leave over links once the device has copied them to the host.
 *
 * Problem: the results of a step exist only once the device has computed them, and the one thread
 * that drives the device must not wait for them while it could queue more computations. Design: a
 * first-in, first-out queue, whose entries have copies in flight and a function that posts the
 * messages. An entry departs when its copies have arrived and the thread polls (send_queue_poll()).
 * A worker flushes the queue (send_queue_flush()) before it waits for another worker, because that
 * worker may be waiting for these messages. A device never waits for a link. If the device waits
 * for a carrier of device memory, that carrier's guard ends the flush (comm/carrier/carrier.h).
 *
 * Messages that need no copy on the host are never queued.
 */
#pragma once

#include "comm/carrier/carrier.h"
#include "worker/device/host_copy.h"

struct send_queue;

/** depart - post the messages; @index is the caller's. The caller of the queue gets the result */
typedef int (*depart_function)(void *context, unsigned index);

/** send_queue_new() - create a queue for at most @most entries at a time; -ENOMEM
 * @guard: the carrier that the device may wait for; borrowed */
int send_queue_new(unsigned most, struct carrier *guard,
                   struct send_queue **ret_queue) CHECK_RESULT;
/** send_queue_free() - free; queued entries do not depart; NULL allowed */
void send_queue_free(struct send_queue *queue);

/**
 * send_queue_add() - fetch @copies and then call @depart; at once if no copy is needed
 * @copies: @copy_count, at least one; borrowed until the entry has departed
 */
int send_queue_add(struct send_queue *queue, struct host_copy *copies, unsigned copy_count,
                   depart_function depart, void *context, unsigned index) CHECK_RESULT;

/** send_queue_poll() - let the entries depart whose copies have arrived; 0 or the first failure of
 * a depart function, which drops the rest of the queue */
int send_queue_poll(struct send_queue *queue) CHECK_RESULT;
/** send_queue_await() - call host_copy_wait() under the guard, whose errors it returns */
int send_queue_await(const struct send_queue *queue, const struct host_copy *copy) CHECK_RESULT;
/** send_queue_flush() - wait for the device and let all entries depart; errors of depart functions
 * and of the guard */
int send_queue_flush(struct send_queue *queue) CHECK_RESULT;
/** send_queue_flush_past() - as send_queue_flush(), up to the entry whose last copy is @copy */
int send_queue_flush_past(struct send_queue *queue, const struct host_copy *copy) CHECK_RESULT;
/** send_queue_drop() - drop all entries: the links have failed */
void send_queue_drop(struct send_queue *queue);
