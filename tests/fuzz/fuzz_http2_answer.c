/*
 * A server's bytes over HTTP/2, from its first frame on. For any input, however it is cut, each of
 * two calls (one message for one call, and a stream) ends at most once, with a reason, and its data
 * are within their bounds. The first byte is the position at which the rest is cut in two.
 *
 * This file takes the place of membership/transport/byte_stream.c, which is not linked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "membership/etcd/grpc.h"

#define MESSAGE_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a wire that delivers these bytes ---- */

struct byte_stream {
    struct byte_stream_callbacks callbacks;
    void *context;
};

static struct byte_stream the_wire;
static const uint8_t *incoming;
static size_t incoming_bytes;
static bool open;

int byte_stream_open(struct curl_loop *curl, const struct byte_stream_order *order,
                     const struct byte_stream_callbacks *callbacks, void *context,
                     struct byte_stream **ret_wire)
{
    (void)curl, (void)order;
    the_wire = (struct byte_stream){.callbacks = *callbacks, .context = context};
    open = true;
    *ret_wire = &the_wire;
    return 0;
}

void byte_stream_close(struct byte_stream *wire)
{
    if (wire)
        open = false;
}

int byte_stream_watch(struct byte_stream *wire, bool write)
{
    (void)wire, (void)write;
    return 0;
}

ssize_t byte_stream_read(struct byte_stream *wire, void *room, size_t size_bytes, bool *ret_more)
{
    (void)wire;
    *ret_more = true;
    size_t taken = MIN(size_bytes, incoming_bytes);
    if (taken == 0)
        return -EAGAIN;
    memcpy(room, incoming, taken);
    incoming += taken;
    incoming_bytes -= taken;
    return (ssize_t)taken;
}

const char *byte_stream_refusal(const struct byte_stream *wire)
{
    (void)wire;
    return NULL;
}

ssize_t byte_stream_write(struct byte_stream *wire, const void *data, size_t size_bytes)
{
    (void)wire, (void)data;
    return (ssize_t)size_bytes;
}

/* ---- a loop with only a clock ---- */

static int add_timer(void *context, uint64_t at_ns, void (*fired)(void *user), void *user,
                     struct loop_timer **ret_timer)
{
    (void)context, (void)at_ns, (void)fired, (void)user;
    *ret_timer = NULL;
    return 0;
}

static int set_timer(void *context, struct loop_timer *timer, uint64_t at_ns)
{
    (void)context, (void)timer, (void)at_ns;
    return 0;
}

static void remove_timer(void *context, struct loop_timer *timer)
{
    (void)context, (void)timer;
}

static uint64_t now_ns(void *context)
{
    (void)context;
    return 1;
}

static const struct loop loop = {
    .timer_add = add_timer, .timer_set = set_timer, .timer_remove = remove_timer, .now_ns = now_ns};

/* ---- the calls ---- */

struct told {
    struct grpc_call *call;
    bool done;
};

static void message_came(void *context, const uint8_t *message, size_t message_bytes)
{
    const struct told *told = context;
    if (told->done || !message || message_bytes > MESSAGE_MAX)
        abort();
}

static void finished(void *context, const struct grpc_answer *answer)
{
    struct told *told = context;
    if (told->done || answer->status > 0 || !answer->text || answer->message_bytes > MESSAGE_MAX ||
        (answer->status < 0 && answer->text[0] == '\0'))
        abort();
    told->done = true;
}

static void bring(const uint8_t *data, size_t size_bytes)
{
    incoming = data;
    incoming_bytes = size_bytes;
    if (open)
        the_wire.callbacks.ready(the_wire.context);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http2_client *client;
    struct told unary = {0}, stream = {0};
    const struct grpc_order order = {.url = "http://a:1/b",
                                     .message = "ping",
                                     .message_bytes = 4,
                                     .message_bytes_max = MESSAGE_MAX};
    if (size == 0)
        return 0;
    size_t first = data[0] % size;
    if (http2_client_new(&loop, &(struct byte_stream_security){0}, &client) ||
        grpc_start(client, &order, NULL, finished, &unary, &unary.call) ||
        grpc_start(client, &order, message_came, finished, &stream, &stream.call))
        abort();
    incoming_bytes = 0;
    the_wire.callbacks.connected(the_wire.context, 0, "");
    bring(data + 1, first);
    bring(data + 1 + first, size - 1 - first);
    if (!unary.done)
        grpc_cancel(unary.call);
    if (!stream.done)
        grpc_cancel(stream.call);
    http2_client_free(client);
    if (open)
        abort();
    return 0;
}
