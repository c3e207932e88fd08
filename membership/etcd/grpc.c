#include "membership/etcd/grpc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define PREFIX_BYTES 5
#define METADATA_MAX 4

struct grpc_call {
    struct http2_request *http;
    struct bytes received; /* of a stream: bytes of an incomplete message */
    size_t message_bytes_max;
    grpc_message_callback message;
    grpc_done_callback done;
    void *context;
    bool *gone; /* set when a callback cancels the call */
};

static int frame(struct bytes *framed, const void *message, size_t message_bytes)
{
    const uint8_t prefix[PREFIX_BYTES] = {0, (uint8_t)(message_bytes >> 24),
                                          (uint8_t)(message_bytes >> 16),
                                          (uint8_t)(message_bytes >> 8), (uint8_t)message_bytes};
    if (message_bytes > UINT32_MAX)
        return -ENOMEM;
    int status = bytes_append(framed, prefix, sizeof(prefix));
    return status < 0 ? status : bytes_append(framed, message, message_bytes);
}

/* Return 1 and the length of the message behind the prefix at @data; 0: it is incomplete. */
static int unframe(const uint8_t *data, size_t size_bytes, size_t max, size_t *ret_message_bytes)
{
    if (size_bytes < PREFIX_BYTES)
        return 0;
    size_t length = (size_t)data[1] << 24 | (size_t)data[2] << 16 | (size_t)data[3] << 8 | data[4];
    if (data[0] != 0)
        return -EPROTO;
    if (length > max)
        return -EFBIG;
    if (length > size_bytes - PREFIX_BYTES)
        return 0;
    *ret_message_bytes = length;
    return 1;
}

static void call_free(struct grpc_call *call)
{
    if (call->gone != NULL)
        *call->gone = true;
    bytes_done(&call->received);
    free(call);
}

void grpc_cancel(struct grpc_call *call)
{
    if (!call)
        return;
    http2_cancel(call->http);
    call_free(call);
}

static void finish(struct grpc_call *call, const struct grpc_answer *answer)
{
    grpc_done_callback done = call->done;
    void *context = call->context;
    call_free(call);
    done(context, answer);
}

static const char *broken_text(int status)
{
    return status == -EFBIG    ? "a message is too large"
           : status == -ENOMEM ? "no memory for a message"
                               : "a message is malformed";
}

/*
 * Deliver all complete messages. Remove them from the call first, because the callback may cancel
 * the call. Return false if it did.
 */
static bool deliver(struct grpc_call *call, int *ret_status)
{
    struct bytes data CLEANUP(bytes_done) = call->received;
    size_t at = 0, length = 0;
    bool gone = false;
    call->received = (struct bytes){0};
    call->gone = &gone;
    while ((*ret_status = unframe(data.data + at, data.size_bytes - at, call->message_bytes_max,
                                  &length)) > 0) {
        call->message(call->context, data.data + at + PREFIX_BYTES, length);
        if (gone)
            return false;
        at += PREFIX_BYTES + length;
    }
    call->gone = NULL;
    bytes_consume(&data, at);
    call->received = data;
    data = (struct bytes){0};
    return true;
}

static void data_came(void *context, const uint8_t *data, size_t size_bytes)
{
    struct grpc_call *call = context;
    int status = bytes_append(&call->received, data, size_bytes);
    if (status == 0 && !deliver(call, &status))
        return;
    if (status < 0) {
        const struct grpc_answer answer = {
            .status = status, .sent = true, .text = broken_text(status)};
        http2_cancel(call->http);
        finish(call, &answer);
    }
}

static int hexadecimal(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

/* Decode `grpc-message`: '%' and bytes that are not printable ASCII are sent as "%XX". */
static void decode_text(const char *coded, char ret_text[GRPC_TEXT_SIZE])
{
    size_t length = 0;
    while (*coded != '\0' && length + 1 < GRPC_TEXT_SIZE) {
        int high = coded[0] == '%' ? hexadecimal(coded[1]) : -1;
        int low = high >= 0 ? hexadecimal(coded[2]) : -1;
        ret_text[length++] = (char)(low >= 0 ? high << 4 | low : coded[0]);
        coded += low >= 0 ? 3 : 1;
    }
    ret_text[length] = '\0';
}

/* Judge an answer without `grpc-status`: the connection failed, or the server is not gRPC. */
static void judge_transport(const struct grpc_call *call, const struct http2_answer *http,
                            struct grpc_answer *answer, char text[GRPC_TEXT_SIZE])
{
    const char *type = http2_answer_header(call->http, "content-type");
    answer->text = text;
    answer->status = http->status;
    if (http->status < 0) {
        answer->text = http->text;
    } else if (http->code != 200) {
        answer->code = http->code >= 500 ? GRPC_UNAVAILABLE : GRPC_UNIMPLEMENTED;
        snprintf(text, GRPC_TEXT_SIZE, "it answers with HTTP %d", http->code);
    } else if (type && strncmp(type, "application/grpc", 16) == 0) {
        answer->status = -ECONNRESET;
        answer->text = "the answer broke off";
    } else {
        answer->status = -EPROTO;
        answer->text = "what answers there does not speak gRPC";
    }
}

static void take_message(const struct grpc_call *call, const struct http2_answer *http,
                         struct grpc_answer *answer)
{
    int status =
        unframe(http->body, http->body_bytes, call->message_bytes_max, &answer->message_bytes);
    if (status > 0 && answer->message_bytes + PREFIX_BYTES == http->body_bytes) {
        answer->message = http->body + PREFIX_BYTES;
        return;
    }
    answer->status = status < 0 ? status : -EPROTO;
    answer->text = broken_text(answer->status);
}

static void http_finished(void *context, const struct http2_answer *http)
{
    struct grpc_call *call = context;
    char text[GRPC_TEXT_SIZE] = "";
    struct grpc_answer answer = {.sent = http->sent, .text = text};
    const char *status = http2_answer_header(call->http, "grpc-status");
    const char *message = http2_answer_header(call->http, "grpc-message");
    if (!status) {
        judge_transport(call, http, &answer, text);
    } else {
        answer.code = (enum grpc_code)strtoul(status, NULL, 10);
        decode_text(message ? message : "", text);
        if (answer.code == GRPC_OK && !call->message)
            take_message(call, http, &answer);
    }
    finish(call, &answer);
}

int grpc_start(struct http2_client *client, const struct grpc_order *order,
               grpc_message_callback message, grpc_done_callback done, void *context,
               struct grpc_call **ret_call)
{
    const char *headers[METADATA_MAX + 3] = {"content-type: application/grpc", "te: trailers"};
    for (size_t i = 0; order->metadata && order->metadata[i]; i++) {
        assert(i < METADATA_MAX);
        headers[2 + i] = order->metadata[i];
    }
    struct grpc_call *call = calloc(1, sizeof(*call));
    if (!call)
        return -ENOMEM;
    call->message_bytes_max = order->message_bytes_max;
    call->message = message;
    call->done = done;
    call->context = context;
    struct bytes body CLEANUP(bytes_forget) = {0};
    int status = frame(&body, order->message, order->message_bytes);
    const struct http2_order http = {.url = order->url,
                                     .headers = headers,
                                     .body = body.data,
                                     .body_bytes = body.size_bytes,
                                     .open_ended = message,
                                     .timeout_ns = order->timeout_ns,
                                     .silence_ns = order->silence_ns,
                                     .reach_ns = order->reach_ns,
                                     .connect_timeout_ns = order->connect_timeout_ns,
                                     .answer_bytes_max = order->message_bytes_max + PREFIX_BYTES};
    if (status == 0)
        status = http2_start(client, &http, message ? data_came : NULL, http_finished, call,
                             &call->http);
    if (status < 0) {
        call_free(call);
        return status;
    }
    *ret_call = call;
    return 0;
}

int grpc_send(struct grpc_call *call, const void *message, size_t message_bytes)
{
    struct bytes framed CLEANUP(bytes_done) = {0};
    int status = frame(&framed, message, message_bytes);
    return status < 0 ? status : http2_send(call->http, framed.data, framed.size_bytes);
}
