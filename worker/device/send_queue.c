#include "worker/device/send_queue.h"

#include <errno.h>

struct departure {
    const struct host_copy *last; /* last of its copies: they arrive in order */
    depart_function depart;
    void *context;
    unsigned index;
};

struct send_queue {
    struct carrier *guard;
    unsigned most, first, count; /* a ring */
    struct departure ring[];
};

int send_queue_new(unsigned most, struct carrier *guard, struct send_queue **ret_queue)
{
    struct send_queue *queue = calloc(1, sizeof(*queue) + most * sizeof(struct departure));

    if (!queue)
        return -ENOMEM;
    queue->most = most;
    queue->guard = guard;
    *ret_queue = queue;
    return 0;
}

void send_queue_free(struct send_queue *queue)
{
    free(queue);
}

int send_queue_add(struct send_queue *queue, struct host_copy *copies, unsigned copy_count,
                   depart_function depart, void *context, unsigned index)
{
    assert(copy_count > 0);
    if (host_copy_is_direct(&copies[0]))
        return depart(context, index);
    for (unsigned i = 0; i < copy_count; i++)
        host_copy_fetch(&copies[i]);
    assert(queue->count < queue->most);
    queue->ring[(queue->first + queue->count++) % queue->most] =
        (struct departure){&copies[copy_count - 1], depart, context, index};
    return 0;
}

static int let_first_go(struct send_queue *queue)
{
    struct departure *departure = &queue->ring[queue->first];
    int status;

    queue->first = (queue->first + 1) % queue->most;
    queue->count--;
    status = departure->depart(departure->context, departure->index);
    if (status)
        send_queue_drop(queue);
    return status;
}

int send_queue_poll(struct send_queue *queue)
{
    int status = 0;

    while (!status && queue->count && host_copy_passed(queue->ring[queue->first].last))
        status = let_first_go(queue);
    return status;
}

int send_queue_await(const struct send_queue *queue, const struct host_copy *copy)
{
    if (host_copy_passed(copy))
        return 0;
    carrier_guard(queue->guard);
    host_copy_wait(copy);
    return carrier_unguard(queue->guard);
}

int send_queue_flush_past(struct send_queue *queue, const struct host_copy *copy)
{
    const struct host_copy *last = NULL;
    int status = 0;

    while (!status && queue->count && (!last || last != copy)) {
        last = queue->ring[queue->first].last;
        status = send_queue_await(queue, last);
        if (status)
            send_queue_drop(queue);
        else
            status = let_first_go(queue);
    }
    return status;
}

int send_queue_flush(struct send_queue *queue)
{
    return send_queue_flush_past(queue, NULL);
}

void send_queue_drop(struct send_queue *queue)
{
    queue->count = 0;
}
