/* Encoding and bounded decoding of frame headers; the table lists the fields that each type may
 * carry. */
#include "comm/mesh/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "comm/mesh/mesh.h"

enum frame_shape {
    SHAPE_SMALL,   /* a payload between the two lengths; no size */
    SHAPE_NUMBER,  /* no payload; `size` is a number of bytes */
    SHAPE_MESSAGE, /* `size` bytes in all, the first segment here */
    SHAPE_PART,    /* one more segment */
};

static const struct {
    enum frame_shape shape;
    uint32_t length_min, length_max;
    bool has_tag;
} frame_types[FRAME_TYPE_END] = {
    [FRAME_HELLO] = {SHAPE_SMALL, FRAME_HELLO_SIZE, FRAME_HELLO_SIZE, true},
    [FRAME_CHALLENGE] = {SHAPE_SMALL, FRAME_CHALLENGE_SIZE, FRAME_CHALLENGE_SIZE, true},
    [FRAME_PROOF] = {SHAPE_SMALL, FRAME_PROOF_SIZE, FRAME_PROOF_SIZE, false},
    [FRAME_REFUSED] = {SHAPE_SMALL, 0, 0, true},
    [FRAME_CREDIT] = {SHAPE_NUMBER, 0, 0, false},
    [FRAME_DATA] = {SHAPE_MESSAGE, 0, FRAME_SEGMENT_MAX, true},
    [FRAME_OFFER] = {SHAPE_NUMBER, 0, 0, true},
    [FRAME_ACCEPT] = {SHAPE_SMALL, 0, 0, true},
    [FRAME_DELIVERY] = {SHAPE_MESSAGE, 0, FRAME_SEGMENT_MAX, true},
    [FRAME_PART] = {SHAPE_PART, 1, FRAME_SEGMENT_MAX, false},
    [FRAME_HEARTBEAT] = {SHAPE_SMALL, 0, 0, false},
    [FRAME_FAULT] = {SHAPE_SMALL, 0, FRAME_SMALL_MAX, false},
    [FRAME_BYE] = {SHAPE_SMALL, 0, 0, false},
};

unsigned frame_version(void)
{
    return FRAME_VERSION;
}

void frame_encode(const struct frame *frame, uint8_t ret_header[FRAME_HEADER_SIZE])
{
    bytes_put_u32(ret_header, FRAME_MAGIC);
    ret_header[4] = FRAME_VERSION;
    ret_header[5] = (uint8_t)frame->type;
    bytes_put_u16(ret_header + 6, 0);
    bytes_put_u32(ret_header + 8, frame->source);
    bytes_put_u32(ret_header + 12, frame->length);
    bytes_put_u64(ret_header + 16, frame->generation);
    bytes_put_u64(ret_header + 24, frame->tag);
    bytes_put_u64(ret_header + 32, frame->size);
}

static bool numbers_allowed(const struct frame *frame)
{
    if (frame->source >= MESH_RANKS_MAX || frame->length < frame_types[frame->type].length_min ||
        frame->length > frame_types[frame->type].length_max)
        return false;
    if (!frame_types[frame->type].has_tag && frame->tag != 0)
        return false;
    switch (frame_types[frame->type].shape) {
    case SHAPE_SMALL:
    case SHAPE_PART:
        return frame->size == 0;
    case SHAPE_NUMBER:
        return frame->size <= MESH_MESSAGE_MAX;
    case SHAPE_MESSAGE:
        return frame->size <= MESH_MESSAGE_MAX &&
               frame->length == MIN(frame->size, (uint64_t)FRAME_SEGMENT_MAX);
    }
    return false;
}

int frame_decode(const uint8_t header[FRAME_HEADER_SIZE], struct frame *ret_frame)
{
    uint8_t type = header[5];
    if (bytes_get_u32(header) != FRAME_MAGIC || header[4] != FRAME_VERSION ||
        bytes_get_u16(header + 6) != 0 || type < FRAME_HELLO || type >= FRAME_TYPE_END)
        return -EPROTO;
    struct frame frame = {
        .type = (enum frame_type)type,
        .source = bytes_get_u32(header + 8),
        .length = bytes_get_u32(header + 12),
        .generation = bytes_get_u64(header + 16),
        .tag = bytes_get_u64(header + 24),
        .size = bytes_get_u64(header + 32),
    };
    if (!numbers_allowed(&frame))
        return -EPROTO;
    *ret_frame = frame;
    return 0;
}
