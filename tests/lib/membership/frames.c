#include "lib/membership/frames.h"

#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"

#define FRAMES_PREFACE    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define FRAME_HEAD_BYTES  9
#define FRAME_END_HEADERS 4u

void frame_send(int connection, unsigned type, unsigned flags, unsigned stream, const void *payload,
                size_t size_bytes)
{
    static _Thread_local uint8_t frame[FRAME_HEAD_BYTES + FRAME_BYTES_MAX];
    const uint8_t head[FRAME_HEAD_BYTES] = {(uint8_t)(size_bytes >> 16),
                                            (uint8_t)(size_bytes >> 8),
                                            (uint8_t)size_bytes,
                                            (uint8_t)type,
                                            (uint8_t)flags,
                                            0,
                                            0,
                                            0,
                                            (uint8_t)stream};
    assert(size_bytes <= FRAME_BYTES_MAX);
    memcpy(frame, head, sizeof(head));
    if (size_bytes > 0)
        memcpy(frame + FRAME_HEAD_BYTES, payload, size_bytes);
    send(connection, frame, FRAME_HEAD_BYTES + size_bytes, MSG_NOSIGNAL);
}

void frame_send_number(int connection, unsigned type, unsigned stream, uint32_t number)
{
    const uint8_t payload[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16),
                                (uint8_t)(number >> 8), (uint8_t)number};
    frame_send(connection, type, 0, stream, payload, sizeof(payload));
}

void frame_send_headers(int connection, unsigned flags, unsigned stream, const char *lines)
{
    uint8_t block[1024];
    size_t size_bytes = 0;
    while (*lines != '\0') {
        size_t line = strcspn(lines, "\n"), name = strcspn(lines + 1, ":") + 1;
        size_t value = line - name - 2;
        assert(value < 127 && size_bytes + line + 3 < sizeof(block));
        block[size_bytes++] = 0;
        block[size_bytes++] = (uint8_t)name;
        memcpy(block + size_bytes, lines, name);
        block[size_bytes + name] = (uint8_t)value;
        memcpy(block + size_bytes + name + 1, lines + name + 2, value);
        size_bytes += name + 1 + value;
        lines += line + (lines[line] == '\n');
    }
    frame_send(connection, FRAME_HEADERS, flags | FRAME_END_HEADERS, stream, block, size_bytes);
}

static bool frame_read_exactly(int connection, void *room, size_t size_bytes)
{
    return size_bytes == 0 ||
           recv(connection, room, size_bytes, MSG_WAITALL) == (ssize_t)size_bytes;
}

bool frame_read(int connection, struct frame *frame)
{
    uint8_t head[FRAME_HEAD_BYTES];
    if (!frame_read_exactly(connection, head, sizeof(head)))
        return false;
    frame->size_bytes = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    frame->type = head[3];
    frame->flags = head[4];
    frame->stream = head[8];
    return frame->size_bytes <= FRAME_BYTES_MAX &&
           frame_read_exactly(connection, frame->payload, frame->size_bytes);
}

bool frame_read_preface(int connection)
{
    char preface[sizeof(FRAMES_PREFACE) - 1];
    return frame_read_exactly(connection, preface, sizeof(preface)) &&
           memcmp(preface, FRAMES_PREFACE, sizeof(preface)) == 0;
}
