#include "worker/device/tensor_channel.h"

#include <string.h>

int tensor_channel_init(struct tensor_channel *channel,
                        const struct tensor_channel_options *options)
{
    *channel = (struct tensor_channel){
        .send_queue = options->send_queue, .carrier = options->carrier, .peer = options->peer};
    return host_copy_init(&channel->copy, options->pinned, options->buffer, options->size_bytes,
                          options->carrier->operations->device_memory);
}

static int post(struct tensor_channel *channel, bool receive, uint64_t tag)
{
    const struct carrier_move move = {.peer = channel->peer,
                                      .receive = receive,
                                      .tag = tag,
                                      .data = channel->copy.on_host,
                                      .size_bytes = channel->copy.size_bytes};

    return carrier_post(channel->carrier, &move, 1, &channel->request);
}

static int depart(void *context, unsigned index)
{
    struct tensor_channel *channel = context;
    (void)index;

    channel->leaving = false;
    return post(channel, false, channel->tag);
}

int tensor_channel_send(struct tensor_channel *channel, uint64_t tag)
{
    int status = tensor_channel_complete(channel);

    if (status)
        return status;
    channel->tag = tag;
    channel->leaving = true;
    return send_queue_add(channel->send_queue, &channel->copy, 1, depart, channel, 0);
}

static int wait_request(struct tensor_channel *channel)
{
    channel->receiving = false;
    return carrier_complete(channel->carrier, &channel->request);
}

/* Flush before waiting: the other worker may be waiting for messages of this one. */
static int wait_received(struct tensor_channel *channel)
{
    int status = 0;

    if (!carrier_test(channel->carrier, channel->request))
        status = send_queue_flush(channel->send_queue);
    if (status) /* no peer may wait for a message that will not be sent */
        carrier_abort(channel->carrier, "a message could not be sent");
    int received = wait_request(channel);
    return status ? status : received;
}

int tensor_channel_complete(struct tensor_channel *channel)
{
    if (channel->receiving)
        return wait_received(channel);
    int status = channel->leaving ? send_queue_flush_past(channel->send_queue, &channel->copy) : 0;

    return status || !channel->request ? status : wait_request(channel);
}

int tensor_channel_reuse(struct tensor_channel *channel)
{
    if (channel->request && carrier_precede(channel->carrier, channel->request))
        return 0;
    return tensor_channel_complete(channel);
}

int tensor_channel_receive(struct tensor_channel *channel, uint64_t tag)
{
    int status = tensor_channel_complete(channel);

    if (!status) /* the copy of the previous message to the device may still be in flight */
        status = send_queue_await(channel->send_queue, &channel->copy);
    if (status)
        return status;
    status = post(channel, true, tag);
    channel->receiving = !status;
    return status;
}

int tensor_channel_land(struct tensor_channel *channel)
{
    if (!channel->request || carrier_precede(channel->carrier, channel->request))
        return 0;
    int status = wait_received(channel);

    if (!status)
        host_copy_store(&channel->copy);
    return status;
}

void tensor_channel_used(struct tensor_channel *channel)
{
    host_copy_used(&channel->copy);
}

void tensor_channel_close(struct tensor_channel *channel)
{
    if (channel->request && channel->receiving)
        carrier_abort(channel->carrier, "a step was given up");
    if (channel->request && wait_request(channel))
        channel->request = NULL; /* failed: the carrier has released the request */
    host_copy_done(&channel->copy);
    memset(channel, 0, sizeof(*channel));
}
