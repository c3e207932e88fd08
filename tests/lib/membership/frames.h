/*
 * HTTP/2 frames as a server in a test needs them (RFC 9113, and 7541 without compression).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_BYTES_MAX 16384

enum frame_type {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_RESET = 3,
    FRAME_SETTINGS = 4,
    FRAME_PING = 6,
    FRAME_GOAWAY = 7,
    FRAME_WINDOW = 8,
};

#define FRAME_END_STREAM     1u /* flags */
#define FRAME_ACK            1u
#define FRAME_NO_ERROR       0 /* why a stream is reset, or the connection ends */
#define FRAME_INTERNAL_ERROR 2
#define FRAME_REFUSED        7

struct frame {
    unsigned type, flags, stream;
    size_t size_bytes;
    uint8_t payload[FRAME_BYTES_MAX];
};

/** frame_send() - send one frame; @size_bytes: at most FRAME_BYTES_MAX */
void frame_send(int connection, unsigned type, unsigned flags, unsigned stream, const void *payload,
                size_t size_bytes);

/** frame_send_number() - send a frame with one number: a reset's reason, a window's growth */
void frame_send_number(int connection, unsigned type, unsigned stream, uint32_t number);

/** frame_send_headers() - Send @lines, "name: value" each, as literals outside the dynamic table */
void frame_send_headers(int connection, unsigned flags, unsigned stream, const char *lines);

/** frame_read() - read one frame. Return: false when the peer has gone */
bool frame_read(int connection, struct frame *frame);

/** frame_read_preface() - read the preface. Return: whether the client speaks HTTP/2 */
bool frame_read_preface(int connection);
