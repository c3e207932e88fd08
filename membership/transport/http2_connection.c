#include "membership/transport/http2_connection.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "membership/transport/timer.h"

#define STREAM_WINDOW_BYTES     (4 << 20)
#define CONNECTION_WINDOW_BYTES (16 << 20)
#define READ_BYTES              16384u
#define OUTPUT_BYTES_MAX        65536u   /* gathered for one write */
#define HEADERS_BYTES_MAX       16384u   /* of one answer */
#define HEADERS_MAX             12       /* of one request */
#define TOKEN                   "token:" /* a secret: must not enter header tables */

/*
 * gRPC servers close the connection of a peer that sends more than three PINGs within this time
 * while they send no data or headers.
 */
#define PING_PAUSE_NS  (6 * NS_PER_SECOND)
#define PINGS_IN_A_ROW 2u

/*
 * A gRPC server sends a PING with every request, to measure the round trip, and no other while that
 * PING is unanswered. Answered at once, these PINGs are a third of the messages between a thousand
 * nodes and etcd. A server that probes for liveness waits for seconds.
 */
#define PONG_DELAY_NS (500 * NS_PER_MS)
#define PING_BYTES    8

struct http2_connection {
    const struct loop *loop;
    struct byte_stream *wire;
    nghttp2_session *session;
    struct bytes output; /* bytes taken from nghttp2 that the wire has not taken */
    struct http2_stream *streams;
    struct http2_stream *told, **told_end; /* streams with a callback to deliver to their owners */
    void (*closed)(struct http2_connection *connection, void *context);
    void *context;
    bool plain; /* not encrypted */
    bool connected, greeted, watches_write;
    bool busy;     /* in turn(): submitted frames are sent at its end */
    bool draining; /* GOAWAY */
    int status;    /* not 0: the connection has failed */
    const char *text;
    uint64_t ping_ns;   /* when the unanswered PING was sent; 0: none */
    uint64_t pinged_ns; /* the last one */
    unsigned pings;     /* since the last data or headers */
    bool pong_due;      /* the peer's PING must be answered, with this payload */
    uint8_t pong[PING_BYTES];
    struct timer pong_alarm;
};

static uint64_t now_ns(const struct http2_connection *connection)
{
    return connection->loop->now_ns(connection->loop->context);
}

static void fail(struct http2_connection *connection, int status, const char *text)
{
    if (connection->status != 0)
        return;
    connection->status = status;
    connection->text = text;
}

/* ---- streams ---- */

static void tell(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;
    if (stream->told)
        return;
    stream->told = true;
    stream->told_next = NULL;
    *connection->told_end = stream;
    connection->told_end = &stream->told_next;
}

static void untell(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;
    if (!stream->told)
        return;
    stream->told = false;
    struct http2_stream **at = &connection->told;
    while (*at != stream)
        at = &(*at)->told_next;
    *at = stream->told_next;
    if (!*at)
        connection->told_end = at;
}

static void end(struct http2_stream *stream, int status, const char *text)
{
    if (stream->whole || stream->failed)
        return;
    stream->whole = status == 0;
    stream->failed = status < 0;
    stream->status = status;
    stream->text = text;
    tell(stream);
}

/* Detach the stream from nghttp2. */
static void detach(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;
    nghttp2_session_set_stream_user_data(connection->session, stream->id, NULL);
    untell(stream);
    *stream->back = stream->next;
    if (stream->next)
        stream->next->back = stream->back;
    stream->connection = NULL;
}

static void reset(struct http2_connection *connection, int32_t id)
{
    /* Without memory the peer keeps sending, and its frames are dropped. */
    (void)nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
}

const char *http2_stream_header(const struct http2_stream *stream, const char *name)
{
    const char *found = NULL;
    const char *at = (const char *)stream->headers.data;
    const char *limit = at ? at + stream->headers.size_bytes : NULL;
    while (at && at < limit) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, name) == 0)
            found = value;
        at = value + strlen(value) + 1;
    }
    return found;
}

/* ---- callbacks of nghttp2: none of them calls an owner ---- */

static struct http2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static ssize_t body_wanted(nghttp2_session *session, int32_t id, uint8_t *room, size_t size_bytes,
                           uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct http2_stream *stream = stream_of(session, id);
    (void)source, (void)user;
    if (!stream) /* the stream has left; its reset is in flight */
        return NGHTTP2_ERR_DEFERRED;
    size_t given = MIN(size_bytes, stream->body.size_bytes - stream->body_at);
    if (given > 0)
        memcpy(room, stream->body.data + stream->body_at, given);
    stream->body_at += given;
    bool all = stream->body_at == stream->body.size_bytes;
    if (all && !stream->open_ended)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    stream->waits = all && given == 0 && stream->open_ended;
    return stream->waits ? NGHTTP2_ERR_DEFERRED : (ssize_t)given;
}

static int before_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)user;
    if (frame->hd.type == NGHTTP2_HEADERS && stream)
        stream->sent = true;
    return 0;
}

static void heard(struct http2_connection *connection, struct http2_stream *stream)
{
    connection->pings = 0;
    if (stream)
        stream->heard = true;
}

static bool headers_fit(const struct http2_stream *stream, size_t name_bytes, size_t value_bytes)
{
    return name_bytes < HEADERS_BYTES_MAX && value_bytes < HEADERS_BYTES_MAX &&
           stream->headers.size_bytes + name_bytes + value_bytes + 2 <= HEADERS_BYTES_MAX;
}

/* Store a header; its text may have any bytes but zeros. */
static int header_came(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                       size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags,
                       void *user)
{
    struct http2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags;
    heard(user, stream);
    if (!stream)
        return 0;
    if (name_bytes == 7 && memcmp(name, ":status", 7) == 0) {
        stream->code = (int)strtol((const char *)value, NULL, 10); /* three digits (nghttp2) */
        return 0;
    }
    if (!headers_fit(stream, name_bytes, value_bytes)) {
        end(stream, -EPROTO, "the headers of the answer are too large");
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    int status = bytes_append(&stream->headers, name, name_bytes);
    if (status == 0)
        status = bytes_append(&stream->headers, "", 1);
    if (status == 0)
        status = bytes_append(&stream->headers, value, value_bytes);
    if (status == 0)
        status = bytes_append(&stream->headers, "", 1);
    if (status < 0) {
        bytes_done(&stream->headers);
        end(stream, status, "no memory for the answer");
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return 0;
}

static int data_came(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                     size_t size_bytes, void *user)
{
    struct http2_connection *connection = user;
    struct http2_stream *stream = stream_of(session, id);
    (void)flags;
    heard(connection, stream);
    if (!stream || stream->failed)
        return 0;
    int status = 0;
    if (size_bytes > stream->answer_bytes_max - stream->answer.size_bytes)
        status = -EFBIG;
    else
        status = bytes_append(&stream->answer, data, size_bytes);
    if (status < 0) {
        end(stream, status,
            status == -EFBIG ? "the answer is too large" : "no memory for the answer");
        reset(connection, id);
    } else if (stream->data) {
        tell(stream);
    }
    return 0;
}

static void answer_ping(struct http2_connection *connection)
{
    connection->pong_due = false;
    if (nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_ACK, connection->pong) != 0)
        fail(connection, -ENOMEM, "no memory for an answer to a PING");
}

/* A second PING shows that the server probes for liveness: answer at once. */
static void ping_came(struct http2_connection *connection, const uint8_t payload[PING_BYTES])
{
    if (connection->pong_due)
        answer_ping(connection);
    else
        timer_set_in(&connection->pong_alarm, PONG_DELAY_NS);
    connection->pong_due = true;
    memcpy(connection->pong, payload, PING_BYTES);
}

/* End the streams that cannot be sent any more. nghttp2 fails streams that wait for the peer's
 * limit only when another stream ends, and a watch does not end. */
static void goes_away(struct http2_connection *connection)
{
    connection->draining = true;
    for (struct http2_stream *stream = connection->streams; stream; stream = stream->next)
        if (!stream->sent)
            end(stream, -ECONNRESET, "the server takes no more requests");
}

static int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct http2_connection *connection = user;
    struct http2_stream *stream =
        frame->hd.stream_id > 0 ? stream_of(session, frame->hd.stream_id) : NULL;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        connection->greeted = true;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        goes_away(connection);
    if (frame->hd.type == NGHTTP2_PING && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        ping_came(connection, frame->ping.opaque_data);
    bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
                (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA);
    if (stream && last)
        end(stream, 0, NULL); /* even if our body is not sent completely */
    return 0;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t why, void *user)
{
    struct http2_stream *stream = stream_of(session, id);
    (void)user;
    if (!stream)
        return 0;
    if (why == NGHTTP2_REFUSED_STREAM) /* RFC 9113, 8.7: it was not processed */
        stream->sent = false;
    bool ours = why == NGHTTP2_PROTOCOL_ERROR || why == NGHTTP2_FLOW_CONTROL_ERROR;
    end(stream, ours ? -EPROTO : -ECONNRESET,
        ours                            ? "the answer is not HTTP/2"
        : why == NGHTTP2_REFUSED_STREAM ? "the server takes no more requests"
                                        : "the server has broken off the answer");
    return 0;
}

/* Fail a queued request: the server accepts no more requests, or does not speak HTTP/2. */
static int frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int why, void *user)
{
    struct http2_connection *connection = user;
    struct http2_stream *stream = connection->streams;
    (void)session, (void)why;
    while (stream && stream->id != frame->hd.stream_id)
        stream = stream->next;
    if (frame->hd.type == NGHTTP2_HEADERS && stream)
        end(stream, connection->draining ? -ECONNRESET : -EPROTO,
            connection->draining ? "the server takes no more requests"
                                 : "what answers there does not speak HTTP/2");
    return 0;
}

static int set_up_session(struct http2_connection *connection)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *options;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_BYTES_MAX},
    };
    if (nghttp2_option_new(&options) != 0)
        return -ENOMEM;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        nghttp2_option_del(options);
        return -ENOMEM;
    }
    nghttp2_option_set_no_auto_ping_ack(options, 1);
    nghttp2_option_set_peer_max_concurrent_streams(options, 0); /* until the peer's SETTINGS give
                                                                 * the limit */
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, before_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, frame_not_sent);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, header_came);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_came);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_came);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
    int failed = nghttp2_session_client_new2(&connection->session, callbacks, connection, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    if (failed == 0)
        failed = nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings,
                                         ARRAY_COUNT(settings));
    if (failed == 0)
        failed = nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                       CONNECTION_WINDOW_BYTES);
    return failed == 0 ? 0 : -ENOMEM;
}

/* ---- moving bytes ---- */

/* Gather as many of nghttp2's frames as one write may carry. */
static bool gather(struct http2_connection *connection)
{
    const uint8_t *data;
    while (connection->output.size_bytes < OUTPUT_BYTES_MAX) {
        ssize_t size_bytes = nghttp2_session_mem_send(connection->session, &data);
        if (size_bytes == 0)
            break;
        if (size_bytes < 0 || bytes_append(&connection->output, data, (size_t)size_bytes) < 0) {
            fail(connection, -ENOMEM, "no memory for a request");
            return false;
        }
    }
    return connection->output.size_bytes > 0;
}

static void take(struct http2_connection *connection, const uint8_t *data, size_t size_bytes)
{
    connection->ping_ns = 0;
    ssize_t r = nghttp2_session_mem_recv(connection->session, data, size_bytes);
    if (r == NGHTTP2_ERR_NOMEM)
        fail(connection, -ENOMEM, "no memory for an answer");
    else if (r < 0)
        fail(connection, -EPROTO, "what answers there does not speak HTTP/2");
}

/* Handle a lost connection: a TLS server closes a connection without TLS. */
static void lose(struct http2_connection *connection, bool closed)
{
    const char *refusal = byte_stream_refusal(connection->wire);
    if (refusal)
        fail(connection, -EPROTO, refusal);
    else if (connection->plain && !connection->greeted)
        fail(
            connection, -ECONNRESET,
            "the server has closed the connection at once, as one that speaks TLS (https://) does");
    else
        fail(connection, -ECONNRESET,
             closed ? "the server has closed the connection" : "the connection broke");
}

static void read_all(struct http2_connection *connection)
{
    uint8_t room[READ_BYTES];
    bool more = true;
    while (more && connection->status == 0) {
        ssize_t size_bytes = byte_stream_read(connection->wire, room, sizeof(room), &more);
        if (size_bytes == -EAGAIN)
            return;
        if (size_bytes > 0)
            take(connection, room, (size_t)size_bytes);
        else
            lose(connection, size_bytes == 0);
    }
}

static void watch(struct http2_connection *connection, bool write)
{
    if (connection->watches_write == write)
        return;
    connection->watches_write = write;
    if (byte_stream_watch(connection->wire, write) < 0)
        fail(connection, -ENOMEM, "the connection cannot be watched");
}

/* Read the bytes that the peer sent before it closed the connection. */
static void break_off(struct http2_connection *connection)
{
    read_all(connection);
    fail(connection, -ECONNRESET, "the connection broke");
}

/* Clear the bytes: they may hold a password. */
static void written(struct http2_connection *connection, size_t size_bytes)
{
    struct bytes *output = &connection->output;
    bytes_consume(output, size_bytes);
    explicit_bzero(output->data + output->size_bytes, size_bytes); /* the rest has moved down */
}

static void write_all(struct http2_connection *connection)
{
    bool full = false;
    while (connection->status == 0 && !full && gather(connection)) {
        ssize_t taken = byte_stream_write(connection->wire, connection->output.data,
                                          connection->output.size_bytes);
        if (taken > 0)
            written(connection, (size_t)taken);
        else if (taken == -EAGAIN)
            full = true;
        else
            break_off(connection);
    }
    watch(connection, full);
}

/* Send the submitted frames now, or at the end of the turn. The loop delivers the results. */
static void flush(struct http2_connection *connection)
{
    if (connection->busy || !connection->connected)
        return;
    write_all(connection);
    if (connection->status != 0 || connection->told)
        watch(connection, true);
}

/* ---- turns ---- */

/* Call one owner at a time: the callback may do anything to its stream and to others. */
static void tell_owners(struct http2_connection *connection)
{
    struct http2_stream *stream;
    while ((stream = connection->told)) {
        struct bytes data = stream->answer;
        if (stream->data && data.size_bytes > 0 && stream->code / 100 == 2) {
            if (!stream->whole && !stream->failed)
                untell(stream); /* else the stream stays, and its end is told next */
            stream->answer = (struct bytes){0};
            stream->data(stream, data.data, data.size_bytes);
            bytes_done(&data);
            continue;
        }
        untell(stream);
        if (!stream->whole && !stream->failed)
            continue;
        int32_t id = stream->id;
        detach(stream);
        if (stream->whole && nghttp2_session_find_stream(connection->session, id))
            reset(connection, id); /* our side of the stream is still open */
        stream->ended(stream, stream->status, stream->text);
    }
}

/* Check whether nghttp2 has ended the connection: the peer broke the protocol, or all streams ended
 * after a GOAWAY. */
static void look_at_session(struct http2_connection *connection)
{
    if (connection->status != 0 || !connection->connected)
        return;
    if (connection->draining && !connection->streams)
        fail(connection, -ECONNRESET, "the server goes away");
    else if (!nghttp2_session_want_read(connection->session) &&
             !nghttp2_session_want_write(connection->session))
        fail(connection, connection->draining ? -ECONNRESET : -EPROTO,
             connection->draining ? "the server goes away"
                                  : "what answers there does not speak HTTP/2");
}

static void close_down(struct http2_connection *connection)
{
    connection->draining = true;
    for (struct http2_stream *stream = connection->streams; stream; stream = stream->next)
        end(stream, connection->status, connection->text);
    tell_owners(connection);
    connection->busy = false;
    connection->closed(connection, connection->context);
}

/* Run a turn. All calls of owners go through this function; it may free the connection. */
static void turn(struct http2_connection *connection)
{
    assert(!connection->busy);
    connection->busy = true;
    if (connection->connected)
        read_all(connection);
    do {
        tell_owners(connection);
        if (connection->connected)
            write_all(connection);
    } while (connection->told);
    look_at_session(connection);
    if (connection->status != 0)
        close_down(connection);
    else
        connection->busy = false;
}

static void wire_connected(void *context, int status, const char *text)
{
    struct http2_connection *connection = context;
    if (status < 0)
        fail(connection, status, text);
    else
        connection->connected = true;
    turn(connection);
}

static void pong_is_due(void *user)
{
    struct http2_connection *connection = user;
    answer_ping(connection);
    flush(connection);
}

static void wire_ready(void *context)
{
    turn(context);
}

/* ---- the connection ---- */

int http2_connection_new(const struct http2_connection_options *options,
                         struct http2_connection **ret_connection)
{
    static const struct byte_stream_callbacks callbacks = {wire_connected, wire_ready};
    struct http2_connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        return -ENOMEM;
    connection->loop = options->loop;
    connection->told_end = &connection->told;
    connection->plain = strncmp(options->wire.origin, "http:", 5) == 0;
    connection->closed = options->closed;
    connection->context = options->context;
    int status = set_up_session(connection);
    if (status == 0)
        status = timer_init(&connection->pong_alarm, options->loop, pong_is_due, connection);
    if (status == 0)
        status = byte_stream_open(options->curl, &options->wire, &callbacks, connection,
                                  &connection->wire);
    if (status < 0) {
        http2_connection_free(connection);
        return status;
    }
    *ret_connection = connection;
    return 0;
}

void http2_connection_free(struct http2_connection *connection)
{
    if (!connection)
        return;
    assert(!connection->streams && !connection->busy);
    byte_stream_close(connection->wire);
    timer_done(&connection->pong_alarm);
    nghttp2_session_del(connection->session);
    bytes_forget(&connection->output);
    free(connection);
}

bool http2_connection_open(const struct http2_connection *connection)
{
    return connection->status == 0 && !connection->draining &&
           nghttp2_session_check_request_allowed(connection->session);
}

bool http2_connection_connected(const struct http2_connection *connection)
{
    return connection->connected;
}

bool http2_connection_greeted(const struct http2_connection *connection)
{
    return connection->greeted;
}

void http2_connection_look(struct http2_connection *connection)
{
    if (connection->connected)
        turn(connection);
}

void http2_connection_probe(struct http2_connection *connection)
{
    uint64_t now = now_ns(connection);
    bool too_often =
        connection->pings >= PINGS_IN_A_ROW && now - connection->pinged_ns < PING_PAUSE_NS;
    if (!connection->connected || connection->status != 0 || connection->ping_ns != 0 || too_often)
        return;
    if (nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, NULL) != 0)
        return;
    connection->ping_ns = connection->pinged_ns = now;
    connection->pings++;
    flush(connection);
}

bool http2_connection_silent(const struct http2_connection *connection, uint64_t for_ns)
{
    return connection->ping_ns != 0 && now_ns(connection) - connection->ping_ns >= for_ns;
}

void http2_connection_break(struct http2_connection *connection, int status, const char *text)
{
    assert(!connection->busy);
    connection->busy = true;
    fail(connection, status, text);
    close_down(connection);
}

/* ---- the owner's side of a stream ---- */

static nghttp2_nv field(const char *name, size_t name_bytes, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .namelen = name_bytes,
                        .value = (uint8_t *)value,
                        .valuelen = strlen(value)};
}

static int submit(struct http2_stream *stream, const char *scheme, const char *authority,
                  const char *path, const char *const *headers)
{
    nghttp2_nv fields[4 + HEADERS_MAX] = {field(":method", 7, "POST"), field(":scheme", 7, scheme),
                                          field(":authority", 10, authority),
                                          field(":path", 5, path)};
    size_t count = 4;
    for (size_t i = 0; headers[i]; i++) {
        const char *colon = strstr(headers[i], ": ");
        assert(i < HEADERS_MAX && colon);
        fields[count] = field(headers[i], (size_t)(colon - headers[i]), colon + 2);
        if (strncmp(headers[i], TOKEN, strlen(TOKEN)) == 0)
            fields[count].flags = NGHTTP2_NV_FLAG_NO_INDEX;
        count++;
    }
    const nghttp2_data_provider body = {.read_callback = body_wanted};
    int32_t id =
        nghttp2_submit_request(stream->connection->session, NULL, fields, count, &body, stream);
    if (id < 0)
        return id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -ECONNRESET;
    stream->id = id;
    return 0;
}

int http2_stream_begin(struct http2_stream *stream, struct http2_connection *connection,
                       const char *scheme, const char *authority, const char *path,
                       const char *const *headers, const void *body, size_t body_bytes)
{
    if (!http2_connection_open(connection))
        return -ECONNRESET;
    int status = bytes_append(&stream->body, body, body_bytes);
    stream->connection = connection;
    if (status == 0)
        status = submit(stream, scheme, authority, path, headers);
    if (status < 0) {
        stream->connection = NULL;
        return status;
    }
    stream->next = connection->streams;
    stream->back = &connection->streams;
    if (stream->next)
        stream->next->back = &stream->next;
    connection->streams = stream;
    flush(connection);
    return 0;
}

int http2_stream_send(struct http2_stream *stream, const void *data, size_t size_bytes)
{
    struct http2_connection *connection = stream->connection;
    assert(stream->open_ended);
    if (!connection)
        return 0; /* `ended` follows */
    bytes_consume(&stream->body, stream->body_at);
    stream->body_at = 0;
    int status = bytes_append(&stream->body, data, size_bytes);
    if (status < 0 || !stream->waits)
        return status;
    stream->waits = false;
    if (nghttp2_session_resume_data(connection->session, stream->id) == NGHTTP2_ERR_NOMEM)
        return -ENOMEM;
    flush(connection);
    return 0;
}

void http2_stream_leave(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;
    if (!connection)
        return;
    detach(stream);
    reset(connection, stream->id);
    flush(connection);
}

/* Clear the memory: a body may hold a password, an answer a token. */
void http2_stream_done(struct http2_stream *stream)
{
    http2_stream_leave(stream);
    bytes_forget(&stream->body);
    bytes_done(&stream->headers);
    bytes_forget(&stream->answer);
}
