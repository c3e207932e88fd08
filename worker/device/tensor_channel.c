#include "worker/device/tensor_channel.h"

#include <string.h>

int tensor_channel_init(struct tensor_channel *passage,
                        const struct tensor_channel_options *options)
{
    *passage = (struct tensor_channel){
        .departures = options->departures, .carrier = options->carrier, .peer = options->peer};
    return host_copy_init(&passage->copy, options->pinned, options->buffer, options->size_bytes,
                          options->carrier->operations->device_memory);
}

static int post(struct tensor_channel *passage, bool receive, uint64_t tag)
{
    const struct carrier_move move = {.peer = passage->peer,
                                      .receive = receive,
                                      .tag = tag,
                                      .data = passage->copy.on_host,
                                      .size_bytes = passage->copy.size_bytes};

    return carrier_post(passage->carrier, &move, 1, &passage->request);
}

static int depart(void *context, unsigned index)
{
    struct tensor_channel *passage = context;
    (void)index;

    passage->leaving = false;
    return post(passage, false, passage->tag);
}

int tensor_channel_send(struct tensor_channel *passage, uint64_t tag)
{
    int status = tensor_channel_complete(passage);

    if (status)
        return status;
    passage->tag = tag;
    passage->leaving = true;
    return send_queue_add(passage->departures, &passage->copy, 1, depart, passage, 0);
}

static int wait_request(struct tensor_channel *passage)
{
    passage->receiving = false;
    return carrier_complete(passage->carrier, &passage->request);
}

/* Flush before waiting: the other worker may be waiting for messages of this one. */
static int wait_received(struct tensor_channel *passage)
{
    int status = 0;

    if (!carrier_test(passage->carrier, passage->request))
        status = send_queue_flush(passage->departures);
    if (status) /* no peer may wait for a message that will not be sent */
        carrier_abort(passage->carrier, "a message could not be sent");
    int received = wait_request(passage);
    return status ? status : received;
}

int tensor_channel_complete(struct tensor_channel *passage)
{
    if (passage->receiving)
        return wait_received(passage);
    int status = passage->leaving ? send_queue_flush_past(passage->departures, &passage->copy) : 0;

    return status || !passage->request ? status : wait_request(passage);
}

int tensor_channel_reuse(struct tensor_channel *passage)
{
    if (passage->request && carrier_precede(passage->carrier, passage->request))
        return 0;
    return tensor_channel_complete(passage);
}

int tensor_channel_receive(struct tensor_channel *passage, uint64_t tag)
{
    int status = tensor_channel_complete(passage);

    if (!status) /* the copy of the message before this one to the device may still be in flight */
        status = send_queue_await(passage->departures, &passage->copy);
    if (status)
        return status;
    status = post(passage, true, tag);
    passage->receiving = !status;
    return status;
}

int tensor_channel_land(struct tensor_channel *passage)
{
    if (!passage->request || carrier_precede(passage->carrier, passage->request))
        return 0;
    int status = wait_received(passage);

    if (!status)
        host_copy_store(&passage->copy);
    return status;
}

void tensor_channel_used(struct tensor_channel *passage)
{
    host_copy_used(&passage->copy);
}

void tensor_channel_close(struct tensor_channel *passage)
{
    if (passage->request && passage->receiving)
        carrier_abort(passage->carrier, "a step was given up");
    if (passage->request && wait_request(passage))
        passage->request = NULL; /* failed: the carrier has released the request */
    host_copy_done(&passage->copy);
    memset(passage, 0, sizeof(*passage));
}
