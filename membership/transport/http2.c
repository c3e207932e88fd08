#include "membership/transport/http2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "membership/transport/http2_connection.h"
#include "membership/transport/timer.h"

#define ORIGIN_SIZE 288
#define PROTOCOL    "h2"

/* A connection and its destination. */
struct peer {
    struct http2_client *client;
    struct peer *next, **back;
    struct http2_connection *connection;
    uint64_t opened_ns;
    char origin[ORIGIN_SIZE]; /* "http://host:port" */
};

struct http2_client {
    const struct loop *loop;
    struct curl_loop *curl;
    char *ca_file, *certificate_file, *key_file;
    struct peer *peers;
    struct http2_request *requests;
    struct timer timer;
    uint64_t timer_ns; /* time for which `timer` is set; UINT64_MAX: not set */
};

struct http2_request {
    struct http2_stream stream; /* first member: its callbacks get it */
    struct http2_client *client;
    struct http2_request *next, **back;
    uint64_t silence_ns;
    uint64_t look_ns, reach_ns, deadline_ns; /* at these times; UINT64_MAX: never */
    http2_data_callback data;
    http2_done_callback done;
    void *context;
};

static uint64_t now_ns(const struct http2_client *client)
{
    return client->loop->now_ns(client->loop->context);
}

/* ---- the end of a request ---- */

static void request_free(struct http2_request *request)
{
    if (request->back) {
        *request->back = request->next;
        if (request->next)
            request->next->back = request->back;
    }
    http2_stream_done(&request->stream);
    free(request);
}

void http2_cancel(struct http2_request *request)
{
    if (request)
        request_free(request);
}

static void finish(struct http2_request *request, int status, const char *text)
{
    const struct http2_stream *stream = &request->stream;
    const struct http2_answer answer = {.status = status,
                                        .sent = stream->sent,
                                        .code = stream->code,
                                        .text = text ? text : "",
                                        .body = stream->answer.data,
                                        .body_bytes = stream->answer.size_bytes};
    request->done(request->context, &answer);
    request_free(request);
}

static void stream_ended(struct http2_stream *stream, int status, const char *text)
{
    finish((struct http2_request *)stream, status, text);
}

static void stream_data(struct http2_stream *stream, const uint8_t *data, size_t size_bytes)
{
    struct http2_request *request = (struct http2_request *)stream;
    request->data(request->context, data, size_bytes);
}

const char *http2_answer_header(const struct http2_request *request, const char *name)
{
    return http2_stream_header(&request->stream, name);
}

/* ---- connections ---- */

static void peer_free(struct peer *peer)
{
    http2_connection_free(peer->connection);
    *peer->back = peer->next;
    if (peer->next)
        peer->next->back = peer->back;
    free(peer);
}

static void connection_closed(struct http2_connection *connection, void *context)
{
    (void)connection;
    peer_free(context);
}

static int open_peer(struct http2_client *client, const char *origin, uint64_t connect_timeout_ns,
                     struct peer **ret_peer)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return -ENOMEM;
    const struct byte_stream_security security = {client->ca_file, client->certificate_file,
                                                  client->key_file};
    const struct http2_connection_options options = {
        .curl = client->curl,
        .loop = client->loop,
        .wire = {.origin = origin,
                 .security = &security,
                 .protocol = PROTOCOL,
                 .connect_timeout_ns = connect_timeout_ns},
        .closed = connection_closed,
        .context = peer,
    };
    int status = http2_connection_new(&options, &peer->connection);
    if (status < 0) {
        free(peer);
        return status;
    }
    peer->client = client;
    peer->opened_ns = now_ns(client);
    stpcpy(peer->origin, origin);
    peer->next = client->peers;
    peer->back = &client->peers;
    if (peer->next)
        peer->next->back = &peer->next;
    client->peers = peer;
    *ret_peer = peer;
    return 0;
}

static int find_peer(struct http2_client *client, const char *origin, uint64_t connect_timeout_ns,
                     struct peer **ret_peer)
{
    for (struct peer *peer = client->peers; peer; peer = peer->next) {
        if (http2_connection_open(peer->connection) && strcmp(peer->origin, origin) == 0) {
            *ret_peer = peer;
            return 0;
        }
    }
    return open_peer(client, origin, connect_timeout_ns, ret_peer);
}

static struct peer *peer_of(const struct http2_request *request)
{
    struct peer *peer = request->client->peers;
    while (peer && peer->connection != request->stream.connection)
        peer = peer->next;
    return peer;
}

/* ---- deadlines ---- */

static void wake_at(struct http2_client *client, uint64_t at_ns)
{
    if (at_ns >= client->timer_ns)
        return;
    client->timer_ns = at_ns;
    timer_set_at(&client->timer, at_ns);
}

/* Return whether the peer has sent no SETTINGS for that time, or left a PING unanswered for a part
 * of it. */
static bool is_dead(const struct http2_client *client, const struct peer *peer, uint64_t silence_ns)
{
    if (!http2_connection_greeted(peer->connection))
        return now_ns(client) - peer->opened_ns >= silence_ns;
    return http2_connection_silent(peer->connection, silence_ns / 4);
}

static const char *dead_text(const struct peer *peer)
{
    return http2_connection_greeted(peer->connection) ? "the server has fallen silent"
           : http2_connection_connected(peer->connection)
               ? "the server takes connections and says nothing"
               : "no connection within the timeout";
}

static uint64_t due_ns(const struct http2_request *request)
{
    uint64_t end_ns =
        request->stream.sent ? request->deadline_ns : MIN(request->reach_ns, request->deadline_ns);
    return MIN(request->look_ns, end_ns);
}

static void give_up(struct http2_request *request, const char *text)
{
    http2_stream_leave(&request->stream);
    finish(request, -ETIMEDOUT, text);
}

/* Handle a time of the request that has passed: end the request, end its connection, or set the
 * next time. */
static void look_at(struct http2_request *request, uint64_t now)
{
    struct peer *peer = request->stream.connection ? peer_of(request) : NULL;
    if (peer && is_dead(request->client, peer, request->silence_ns)) {
        http2_connection_break(peer->connection, -EHOSTUNREACH, dead_text(peer));
    } else if (now >= request->deadline_ns) {
        give_up(request, "no answer within the timeout");
    } else if (!request->stream.sent && now >= request->reach_ns) {
        give_up(request, peer ? dead_text(peer) : "no connection");
    } else {
        if (peer)
            http2_connection_probe(peer->connection);
        request->look_ns = now + request->silence_ns / 2;
    }
}

static struct http2_request *find_due(struct http2_client *client, uint64_t now)
{
    struct http2_request *request = client->requests;
    while (request && due_ns(request) > now)
        request = request->next;
    return request;
}

/* Read received bytes first, so that a late loop does not count as a silent peer. */
static void look_at_peers(struct http2_client *client)
{
    for (struct peer *peer = client->peers, *next; peer; peer = next) {
        next = peer->next;
        http2_connection_look(peer->connection);
    }
}

static void timer_fired(void *user)
{
    struct http2_client *client = user;
    client->timer_ns = UINT64_MAX;
    look_at_peers(client);
    uint64_t now = now_ns(client);
    for (struct http2_request *request; (request = find_due(client, now));)
        look_at(request, now);
    for (struct http2_request *request = client->requests; request; request = request->next)
        wake_at(client, due_ns(request));
}

/* ---- requests ---- */

/* Split "http://host:port/path" into three. Return the beginning of the path; NULL: malformed. */
static const char *split_url(const char *url, char origin[ORIGIN_SIZE], const char **ret_scheme,
                             const char **ret_authority)
{
    const char *colon = strstr(url, "://");
    const char *path = colon ? strchr(colon + 3, '/') : NULL;
    if (!path || path == colon + 3 || (size_t)(path - url) >= ORIGIN_SIZE)
        return NULL;
    memcpy(origin, url, (size_t)(path - url));
    origin[path - url] = '\0';
    *ret_scheme = strncmp(url, "https:", 6) == 0 ? "https" : "http";
    *ret_authority = origin + (colon + 3 - url);
    return path;
}

static int send_request(struct http2_request *request, const struct http2_order *order)
{
    char origin[ORIGIN_SIZE];
    const char *scheme, *authority;
    const char *path = split_url(order->url, origin, &scheme, &authority);
    struct peer *peer;
    uint64_t connect_timeout_ns =
        order->connect_timeout_ns != 0 ? order->connect_timeout_ns : order->timeout_ns;
    int status = !path ? -EINVAL : find_peer(request->client, origin, connect_timeout_ns, &peer);
    if (status == 0)
        status = http2_stream_begin(&request->stream, peer->connection, scheme, authority, path,
                                    order->headers, order->body, order->body_bytes);
    return status == -ECONNRESET ? -EIO : status;
}

static void set_times(struct http2_request *request, const struct http2_order *order)
{
    request->look_ns = request->reach_ns = request->deadline_ns = UINT64_MAX;
    if (order->timeout_ns == 0)
        return;
    uint64_t now = now_ns(request->client);
    request->silence_ns = order->silence_ns != 0 ? order->silence_ns : order->timeout_ns;
    request->look_ns = now + request->silence_ns / 2;
    request->deadline_ns = now + order->timeout_ns;
    if (order->reach_ns != 0)
        request->reach_ns = now + order->reach_ns;
    wake_at(request->client, due_ns(request));
}

int http2_start(struct http2_client *client, const struct http2_order *order,
                http2_data_callback data, http2_done_callback done, void *context,
                struct http2_request **ret_request)
{
    struct http2_request *request = calloc(1, sizeof(*request));
    if (!request)
        return -ENOMEM;
    request->stream = (struct http2_stream){.open_ended = order->open_ended,
                                            .answer_bytes_max = order->answer_bytes_max,
                                            .data = data ? stream_data : NULL,
                                            .ended = stream_ended};
    request->client = client;
    request->data = data;
    request->done = done;
    request->context = context;
    int status = send_request(request, order);
    if (status < 0) {
        request_free(request);
        return status;
    }
    set_times(request, order);
    request->next = client->requests;
    request->back = &client->requests;
    if (request->next)
        request->next->back = &request->next;
    client->requests = request;
    *ret_request = request;
    return 0;
}

int http2_send(struct http2_request *request, const void *data, size_t size_bytes)
{
    return http2_stream_send(&request->stream, data, size_bytes);
}

/* ---- the client ---- */

static int copy_text(const char *text, char **ret_copy)
{
    if (!text)
        return 0;
    *ret_copy = strdup(text);
    return *ret_copy ? 0 : -ENOMEM;
}

int http2_client_new(const struct loop *loop, const struct byte_stream_security *security,
                     struct http2_client **ret_client)
{
    struct http2_client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    client->loop = loop;
    client->timer_ns = UINT64_MAX;
    int status = copy_text(security->ca_file, &client->ca_file);
    if (status == 0)
        status = copy_text(security->certificate_file, &client->certificate_file);
    if (status == 0)
        status = copy_text(security->key_file, &client->key_file);
    if (status == 0)
        status = curl_loop_new(loop, &client->curl);
    if (status == 0)
        status = timer_init(&client->timer, loop, timer_fired, client);
    if (status < 0) {
        http2_client_free(client);
        return status;
    }
    *ret_client = client;
    return 0;
}

void http2_client_free(struct http2_client *client)
{
    if (!client)
        return;
    while (client->requests)
        http2_cancel(client->requests);
    while (client->peers)
        peer_free(client->peers);
    timer_done(&client->timer);
    curl_loop_free(client->curl);
    free(client->ca_file);
    free(client->certificate_file);
    free(client->key_file);
    free(client);
}
