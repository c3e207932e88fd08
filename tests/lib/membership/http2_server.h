/*
 * A server for tests that sends HTTP/2 frames from a script, one connection after the other.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum act_kind {
    END = 0,  /* of the script */
    REQUESTS, /* read until so many complete requests have come on this connection */
    BYTES,    /* read until so many bytes of bodies have come, on all connections */
    ANSWER,   /* the headers of request `which`, its number as text, and the end */
    HEADERS,  /* of `which` and nothing more */
    PIECE,    /* some text for `which` */
    GIANT, /* so many frames of FRAME_BYTES_MAX for `which`, as far as windows allow, and the end */
    RESET, /* `which`, with that code */
    GO_AWAY, /* `which` is the last that is answered */
    LIMIT,   /* so many streams at once */
    RAW,     /* `text` as it is */
    PINGS,   /* read until so many PINGs have come */
    RESETS,  /* read until so many streams have been reset */
    ASK,     /* a PING */
    PONGS,   /* read until so many PINGs have been answered */
    MUTE,    /* stop answering PINGs */
    HANG_UP, /* and take the next connection */
};

struct act {
    enum act_kind kind;
    unsigned which; /* request: 1 is the first of its connection */
    unsigned number;
    const char *text;
};

struct server {
    int listener, connection;
    unsigned port;
    pthread_t thread;
    const struct act *script;
    bool mute;
    sem_t hung_up; /* posted for each connection that was closed */
    /* of this connection */
    unsigned whole, pings, pongs, resets;
    int64_t window, stream_window; /* the client's remaining windows; of one stream */
    /* read after the thread has ended */
    unsigned connections;
    size_t body_bytes;
};

/** http2_server_run() - play the script of a struct server; a thread's function */
void *http2_server_run(void *user);
