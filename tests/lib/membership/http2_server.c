#include "lib/membership/http2_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lib/membership/frames.h"

static unsigned id_of(unsigned which)
{
    return 2 * which - 1;
}

static uint32_t number_in(const uint8_t *payload)
{
    return (uint32_t)payload[0] << 24 | (uint32_t)payload[1] << 16 | (uint32_t)payload[2] << 8 |
           payload[3];
}

static void take_settings(struct server *server, const struct frame *frame)
{
    if (frame->flags & FRAME_ACK)
        return;
    for (size_t at = 0; at + 6 <= frame->size_bytes; at += 6)
        if (frame->payload[at + 1] == 4) /* SETTINGS_INITIAL_WINDOW_SIZE */
            server->stream_window = number_in(frame->payload + at + 2);
    frame_send(server->connection, FRAME_SETTINGS, FRAME_ACK, 0, NULL, 0);
}

/* Give the client's send window back as its data arrive. */
static void take_data(struct server *server, const struct frame *frame)
{
    server->body_bytes += frame->size_bytes;
    if (frame->flags & FRAME_END_STREAM)
        server->whole++;
    if (frame->size_bytes == 0)
        return;
    frame_send_number(server->connection, FRAME_WINDOW, 0, (uint32_t)frame->size_bytes);
    if (!(frame->flags & FRAME_END_STREAM))
        frame_send_number(server->connection, FRAME_WINDOW, frame->stream,
                          (uint32_t)frame->size_bytes);
}

static bool read_one(struct server *server)
{
    struct frame frame;
    if (!frame_read(server->connection, &frame))
        return false;
    if (frame.type == FRAME_SETTINGS)
        take_settings(server, &frame);
    else if (frame.type == FRAME_DATA)
        take_data(server, &frame);
    else if (frame.type == FRAME_RESET)
        server->resets++;
    else if (frame.type == FRAME_WINDOW)
        *(frame.stream == 0 ? &server->window : &server->stream_window) += number_in(frame.payload);
    else if (frame.type == FRAME_PING && (frame.flags & FRAME_ACK)) {
        assert(frame.payload[0] == ++server->pongs); /* the first is asked first */
    } else if (frame.type == FRAME_PING) {
        server->pings++;
        if (!server->mute)
            frame_send(server->connection, FRAME_PING, FRAME_ACK, 0, frame.payload, 8);
    }
    return true;
}

static bool read_until(struct server *server, const unsigned *count, unsigned wanted)
{
    while (*count < wanted)
        if (!read_one(server))
            return false;
    return true;
}

static void send_end(struct server *server, unsigned which)
{
    frame_send_headers(server->connection, FRAME_END_STREAM, id_of(which), "x-end: yes");
}

static void send_start(struct server *server, unsigned which)
{
    frame_send_headers(server->connection, 0, id_of(which), ":status: 200");
}

static bool send_giant(struct server *server, unsigned which, unsigned frames)
{
    static const uint8_t piece[FRAME_BYTES_MAX];
    send_start(server, which);
    for (unsigned i = 0; i < frames; i++) {
        while (MIN(server->window, server->stream_window) < FRAME_BYTES_MAX)
            if (!read_one(server))
                return false;
        frame_send(server->connection, FRAME_DATA, 0, id_of(which), piece, sizeof(piece));
        server->window -= FRAME_BYTES_MAX;
        server->stream_window -= FRAME_BYTES_MAX;
    }
    send_end(server, which);
    return true;
}

static bool play(struct server *server, const struct act *act)
{
    int connection = server->connection;
    const uint8_t last[8] = {0, 0, 0, (uint8_t)(act->which ? id_of(act->which) : 0)};
    const uint8_t limit[6] = {0, 3, 0, 0, 0, (uint8_t)act->number};
    uint8_t ping[8] = {0};
    char text[16];
    switch (act->kind) {
    case REQUESTS:
        return read_until(server, &server->whole, act->number);
    case BYTES:
        while (server->body_bytes < act->number)
            if (!read_one(server))
                return false;
        return true;
    case ANSWER:
        snprintf(text, sizeof(text), "%u", act->which);
        send_start(server, act->which);
        frame_send(connection, FRAME_DATA, 0, id_of(act->which), text, strlen(text));
        send_end(server, act->which);
        return true;
    case HEADERS:
        send_start(server, act->which);
        return true;
    case PIECE:
        frame_send(connection, FRAME_DATA, 0, id_of(act->which), act->text, strlen(act->text));
        return true;
    case GIANT:
        return send_giant(server, act->which, act->number);
    case RESET:
        frame_send_number(connection, FRAME_RESET, id_of(act->which), act->number);
        return true;
    case GO_AWAY:
        frame_send(connection, FRAME_GOAWAY, 0, 0, last, sizeof(last));
        return true;
    case LIMIT:
        frame_send(connection, FRAME_SETTINGS, 0, 0, limit, sizeof(limit));
        return true;
    case RAW:
        return send(connection, act->text, act->number, MSG_NOSIGNAL) > 0;
    case PINGS:
        return read_until(server, &server->pings, act->number);
    case RESETS:
        return read_until(server, &server->resets, act->number);
    case ASK:
        ping[0] = (uint8_t)act->number;
        frame_send(connection, FRAME_PING, 0, 0, ping, sizeof(ping));
        return true;
    case PONGS:
        return read_until(server, &server->pongs, act->number);
    case MUTE:
        server->mute = true;
        return true;
    default:
        return false;
    }
}

/* Play the script until HANG_UP or END; after END read for as long as the client speaks. */
static const struct act *serve_one(struct server *server, const struct act *act)
{
    bool goes_on = frame_read_preface(server->connection);
    server->whole = server->pings = server->pongs = server->resets = 0;
    server->window = server->stream_window = 65535;
    server->mute = false;
    server->connections++;
    if (act->kind != RAW)
        frame_send(server->connection, FRAME_SETTINGS, 0, 0, NULL, 0);
    while (goes_on && act->kind != HANG_UP && act->kind != END)
        goes_on = play(server, act++);
    while (goes_on && act->kind == END)
        goes_on = read_one(server);
    while (act->kind != HANG_UP && act->kind != END)
        act++;
    return act;
}

void *http2_server_run(void *user)
{
    struct server *server = user;
    const struct act *act = server->script;
    while ((server->connection = accept(server->listener, NULL, NULL)) >= 0) {
        const int at_once = 1; /* close() would drop data that wait for an acknowledgement */
        setsockopt(server->connection, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
        act = serve_one(server, act);
        close(server->connection);
        sem_post(&server->hung_up);
        if (act->kind == END)
            break;
        act++;
    }
    return NULL;
}
