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

int send_queue_new(unsigned most, struct carrier *guard, struct send_queue **ret_departures)
{
    struct send_queue *departures =
        calloc(1, sizeof(*departures) + most * sizeof(struct departure));

    if (!departures)
        return -ENOMEM;
    departures->most = most;
    departures->guard = guard;
    *ret_departures = departures;
    return 0;
}

void send_queue_free(struct send_queue *departures)
{
    free(departures);
}

int send_queue_add(struct send_queue *departures, struct host_copy *copies, unsigned copy_count,
                   depart_function depart, void *context, unsigned index)
{
    assert(copy_count > 0);
    if (host_copy_is_direct(&copies[0]))
        return depart(context, index);
    for (unsigned i = 0; i < copy_count; i++)
        host_copy_fetch(&copies[i]);
    assert(departures->count < departures->most);
    departures->ring[(departures->first + departures->count++) % departures->most] =
        (struct departure){&copies[copy_count - 1], depart, context, index};
    return 0;
}

static int let_first_go(struct send_queue *departures)
{
    struct departure *departure = &departures->ring[departures->first];
    int status;

    departures->first = (departures->first + 1) % departures->most;
    departures->count--;
    status = departure->depart(departure->context, departure->index);
    if (status)
        send_queue_drop(departures);
    return status;
}

int send_queue_poll(struct send_queue *departures)
{
    int status = 0;

    while (!status && departures->count &&
           host_copy_passed(departures->ring[departures->first].last))
        status = let_first_go(departures);
    return status;
}

int send_queue_await(const struct send_queue *departures, const struct host_copy *copy)
{
    if (host_copy_passed(copy))
        return 0;
    carrier_guard(departures->guard);
    host_copy_wait(copy);
    return carrier_unguard(departures->guard);
}

int send_queue_flush_past(struct send_queue *departures, const struct host_copy *copy)
{
    const struct host_copy *last = NULL;
    int status = 0;

    while (!status && departures->count && (!last || last != copy)) {
        last = departures->ring[departures->first].last;
        status = send_queue_await(departures, last);
        if (status)
            send_queue_drop(departures);
        else
            status = let_first_go(departures);
    }
    return status;
}

int send_queue_flush(struct send_queue *departures)
{
    return send_queue_flush_past(departures, NULL);
}

void send_queue_drop(struct send_queue *departures)
{
    departures->count = 0;
}
