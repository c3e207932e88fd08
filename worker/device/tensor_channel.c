#include "worker/device/tensor_channel.h"

#include <string.h>

int passage_init(struct passage *passage, const struct passage_options *options)
{
    *passage = (struct passage){
        .departures = options->departures, .carrier = options->carrier, .peer = options->peer};
    return host_copy_init(&passage->copy, options->pinned, options->buffer, options->size_bytes,
                          options->carrier->operations->device_memory);
}

static int post(struct passage *passage, bool receive, uint64_t tag)
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
    struct passage *passage = context;
    (void)index;

    passage->leaving = false;
    return post(passage, false, passage->tag);
}

int passage_send(struct passage *passage, uint64_t tag)
{
    int status = passage_complete(passage);

    if (status)
        return status;
    passage->tag = tag;
    passage->leaving = true;
    return departures_add(passage->departures, &passage->copy, 1, depart, passage, 0);
}

static int wait_request(struct passage *passage)
{
    passage->receiving = false;
    return carrier_complete(passage->carrier, &passage->request);
}

/* Nobody waits for another worker before all has left that this one may be waiting for. */
static int wait_received(struct passage *passage)
{
    int status = 0;

    if (!carrier_test(passage->carrier, passage->request))
        status = departures_flush(passage->departures);
    if (status) /* nobody may wait for what will not leave */
        carrier_abort(passage->carrier, "a message could not be sent");
    int received = wait_request(passage);
    return status ? status : received;
}

int passage_complete(struct passage *passage)
{
    if (passage->receiving)
        return wait_received(passage);
    int status = passage->leaving ? departures_flush_past(passage->departures, &passage->copy) : 0;

    return status || !passage->request ? status : wait_request(passage);
}

int passage_reuse(struct passage *passage)
{
    if (passage->request && carrier_precede(passage->carrier, passage->request))
        return 0;
    return passage_complete(passage);
}

int passage_receive(struct passage *passage, uint64_t tag)
{
    int status = passage_complete(passage);

    if (!status) /* the message before this one may still be on its way up */
        status = departures_await(passage->departures, &passage->copy);
    if (status)
        return status;
    status = post(passage, true, tag);
    passage->receiving = !status;
    return status;
}

int passage_land(struct passage *passage)
{
    if (!passage->request || carrier_precede(passage->carrier, passage->request))
        return 0;
    int status = wait_received(passage);

    if (!status)
        host_copy_store(&passage->copy);
    return status;
}

void passage_used(struct passage *passage)
{
    host_copy_used(&passage->copy);
}

void passage_close(struct passage *passage)
{
    if (passage->request && passage->receiving)
        carrier_abort(passage->carrier, "a step was given up");
    if (passage->request && wait_request(passage))
        passage->request =
            NULL; /* it has failed: the request is gone, which is all that is wanted */
    host_copy_done(&passage->copy);
    memset(passage, 0, sizeof(*passage));
}
