#include "comm/mesh/frame_stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void frame_stream_init(struct frame_stream *stream, struct link *link,
                       const struct frame_stream_events *events, void *context, uint64_t generation,
                       uint32_t source)
{
    *stream = (struct frame_stream){
        .link = link,
        .events = events,
        .context = context,
        .generation = generation,
        .source = source,
    };
    TAILQ_INIT(&stream->out.urgent);
    TAILQ_INIT(&stream->out.bulk);
}

void frame_stream_done(struct frame_stream *stream)
{
    bytes_done(&stream->out.small);
    bytes_done(&stream->out.committed);
    free(stream->out.abandoned);
    stream->out.abandoned = NULL;
    frame_seal_free(stream->in.seal);
    frame_seal_free(stream->out.seal);
    stream->in.seal = stream->out.seal = NULL;
}

int frame_stream_seal(struct frame_stream *stream, enum frame_seal_kind kind,
                      const uint8_t key_out[FRAME_SEAL_KEY_SIZE],
                      const uint8_t key_in[FRAME_SEAL_KEY_SIZE])
{
    assert(!stream->in.seal && !stream->out.seal && !frame_stream_items_waiting(stream));
    int status = frame_seal_new(kind, key_out, &stream->out.seal);
    return status < 0 ? status : frame_seal_new(kind, key_in, &stream->in.seal);
}

/* ---- out ---- */

static int append_tag(struct frame_stream_out *out, struct bytes *to, const void *data,
                      size_t size_bytes)
{
    uint8_t tag[FRAME_SEAL_TAG_SIZE];
    if (!out->seal)
        return 0;
    int status = frame_seal_make(out->seal, data, size_bytes, tag);
    return status < 0 ? status : bytes_append(to, tag, sizeof(tag));
}

static int append_header(struct frame_stream *stream, struct bytes *to, struct frame frame)
{
    uint8_t header[FRAME_HEADER_SIZE];
    frame.generation = stream->generation;
    frame.source = stream->source;
    frame_encode(&frame, header);
    int status = bytes_append(to, header, sizeof(header));
    return status < 0 ? status : append_tag(&stream->out, to, header, sizeof(header));
}

int frame_stream_put(struct frame_stream *stream, enum frame_type type, uint64_t tag, uint64_t size,
                     const void *payload, uint32_t length)
{
    size_t before = stream->out.small.size_bytes;
    int status =
        append_header(stream, &stream->out.small,
                      (struct frame){.type = type, .tag = tag, .size = size, .length = length});
    if (status == 0 && length > 0)
        status = bytes_append(&stream->out.small, payload, length);
    if (status == 0 && length > 0)
        status = append_tag(&stream->out, &stream->out.small, payload, length);
    if (status < 0)
        stream->out.small.size_bytes = before;
    return status;
}

/* Offers are small, so the offer of a bulk message is queued as urgent, ahead of its bytes. */
static struct frame_stream_items *queue_of(struct frame_stream_out *out,
                                           const struct frame_stream_item *item)
{
    return item->bulk && item->type != FRAME_OFFER ? &out->bulk : &out->urgent;
}

void frame_stream_queue(struct frame_stream *stream, struct frame_stream_item *item)
{
    TAILQ_INSERT_TAIL(queue_of(&stream->out, item), item, entry);
}

bool frame_stream_items_waiting(const struct frame_stream *stream)
{
    return !TAILQ_EMPTY(&stream->out.urgent) || !TAILQ_EMPTY(&stream->out.bulk);
}

unsigned frame_stream_count(const struct frame_stream *stream)
{
    const struct frame_stream_item *item;
    unsigned count = 0;
    TAILQ_FOREACH(item, &stream->out.urgent, entry)
    count++;
    TAILQ_FOREACH(item, &stream->out.bulk, entry)
    count++;
    return count;
}

static bool commitment_open(const struct frame_stream_out *out)
{
    return out->committed_position < out->committed.size_bytes || out->segment_left > 0 ||
           out->trailer_left > 0;
}

bool frame_stream_idle(const struct frame_stream *stream)
{
    return !frame_stream_items_waiting(stream) && stream->out.small.size_bytes == 0 &&
           !commitment_open(&stream->out);
}

/* Return the frame of the next segment of the open item. */
static struct frame next_segment(const struct frame_stream_out *out,
                                 const struct frame_stream_item *item)
{
    if (item->type == FRAME_OFFER)
        return (struct frame){.type = FRAME_OFFER, .tag = item->tag, .size = item->size_bytes};
    size_t left = item->size_bytes - out->item_position;
    uint32_t length = (uint32_t)MIN(left, (size_t)FRAME_SEGMENT_MAX);
    if (out->item_position > 0)
        return (struct frame){.type = FRAME_PART, .length = length};
    return (struct frame){
        .type = item->type, .tag = item->tag, .size = item->size_bytes, .length = length};
}

/* Commit, at a boundary, the waiting small frames and one segment behind them. */
static int commit_next(struct frame_stream *stream)
{
    stream->out.committed.size_bytes = 0;
    stream->out.committed_position = 0;
    if (stream->out.small.size_bytes > 0) {
        struct bytes empty = stream->out.committed;
        stream->out.committed = stream->out.small;
        stream->out.small = empty;
    }
    if (!stream->out.open)
        stream->out.open = TAILQ_EMPTY(&stream->out.urgent) ? TAILQ_FIRST(&stream->out.bulk)
                                                            : TAILQ_FIRST(&stream->out.urgent);
    const struct frame_stream_item *item = stream->out.open;
    if (!item)
        return 0;
    struct frame frame = next_segment(&stream->out, item);
    int status = append_header(stream, &stream->out.committed, frame);
    if (status < 0)
        return status;
    stream->out.item_committed = true;
    stream->out.segment = item->data + (frame.length > 0 ? stream->out.item_position : 0);
    stream->out.segment_left = frame.length;
    stream->out.item_position += frame.length;
    if (!stream->out.seal || frame.length == 0)
        return 0;
    stream->out.trailer_left = FRAME_SEAL_TAG_SIZE;
    return frame_seal_make(stream->out.seal, stream->out.segment, frame.length,
                           stream->out.trailer);
}

/* Finish the commitment, all of which is sent. Complete the open item if its last segment was part
 * of it. */
static void commitment_done(struct frame_stream *stream)
{
    if (stream->out.abandoned) {
        free(stream->out.abandoned);
        stream->out.abandoned = NULL;
    }
    if (!stream->out.item_committed)
        return;
    stream->out.item_committed = false;
    struct frame_stream_item *item = stream->out.open;
    if (item->type == FRAME_OFFER || stream->out.item_position == item->size_bytes) {
        stream->out.item_position = 0;
        stream->out.open = NULL;
        TAILQ_REMOVE(queue_of(&stream->out, item), item, entry);
        stream->events->item_sent(stream->context, item);
    }
}

static ssize_t send_committed(struct frame_stream *stream)
{
    struct iovec parts[3];
    int part_count = 0;
    size_t prefix = stream->out.committed.size_bytes - stream->out.committed_position;
    if (prefix > 0)
        parts[part_count++] =
            (struct iovec){.iov_base = stream->out.committed.data + stream->out.committed_position,
                           .iov_len = prefix};
    if (stream->out.segment_left > 0)
        parts[part_count++] = (struct iovec){.iov_base = (void *)(uintptr_t)stream->out.segment,
                                             .iov_len = stream->out.segment_left};
    if (stream->out.trailer_left > 0)
        parts[part_count++] = (struct iovec){.iov_base = stream->out.trailer + FRAME_SEAL_TAG_SIZE -
                                                         stream->out.trailer_left,
                                             .iov_len = stream->out.trailer_left};
    ssize_t count = link_send(stream->link, parts, part_count);
    if (count <= 0)
        return count;
    stream->bytes_sent += (uint64_t)count;
    size_t of_prefix = MIN((size_t)count, prefix);
    size_t of_segment = MIN((size_t)count - of_prefix, stream->out.segment_left);
    stream->out.committed_position += of_prefix;
    stream->out.trailer_left -= (size_t)count - of_prefix - of_segment;
    if (of_segment > 0) {
        stream->out.segment += of_segment;
        stream->out.segment_left -= of_segment;
    }
    return count;
}

int frame_stream_send(struct frame_stream *stream)
{
    for (;;) {
        if (!commitment_open(&stream->out)) {
            commitment_done(stream);
            if (frame_stream_idle(stream))
                return 0;
            int status = commit_next(stream);
            if (status < 0)
                return status;
        }
        ssize_t count = send_committed(stream);
        if (count == -EAGAIN)
            return 0;
        if (count < 0)
            return (int)count;
    }
}

int frame_stream_abandon(struct frame_stream *stream, struct frame_stream_items *ret_items)
{
    TAILQ_INIT(ret_items);
    TAILQ_CONCAT(ret_items, &stream->out.urgent, entry);
    TAILQ_CONCAT(ret_items, &stream->out.bulk, entry);
    stream->out.open = NULL;
    stream->out.item_committed = false;
    stream->out.item_position = 0;
    if (stream->out.segment_left == 0 || stream->out.abandoned)
        return 0;
    uint8_t *copy = malloc(stream->out.segment_left);
    if (!copy) {
        stream->out.segment_left = 0;
        return -ENOMEM;
    }
    memcpy(copy, stream->out.segment, stream->out.segment_left);
    stream->out.abandoned = copy;
    stream->out.segment = copy;
    return 0;
}

/* ---- in ---- */

static bool type_opens_message(enum frame_type type)
{
    return type == FRAME_DATA || type == FRAME_DELIVERY;
}

static int message_end(struct frame_stream *stream)
{
    struct frame message = stream->in.message;
    stream->in.message.type = 0;
    stream->in.destination = NULL;
    return stream->events->message_ends(stream->context, &message);
}

/* Finish a segment whose bytes are all here and whose tag is right. */
static int segment_end(struct frame_stream *stream)
{
    stream->in.in_segment = stream->in.awaits_tag = false;
    return stream->in.message_position == stream->in.message.size ? message_end(stream) : 0;
}

static int segment_begin(struct frame_stream *stream, const struct frame *frame)
{
    if (type_opens_message(frame->type)) {
        if (stream->in.message.type != 0)
            return -EPROTO;
        int status =
            stream->events->message_begins(stream->context, frame, &stream->in.destination);
        if (status < 0)
            return status;
        stream->in.message = *frame;
        stream->in.message_position = 0;
    } else {
        uint64_t left = stream->in.message.size - stream->in.message_position;
        if (stream->in.message.type == 0 || frame->length != MIN(left, (uint64_t)FRAME_SEGMENT_MAX))
            return -EPROTO;
    }
    stream->in.in_segment = true;
    stream->in.segment_remaining = frame->length;
    if (frame->length == 0)
        return segment_end(stream);
    return stream->in.seal ? frame_seal_begin(stream->in.seal) : 0;
}

/* Account for bytes that are at their destination. */
static int segment_arrived(struct frame_stream *stream, size_t count)
{
    if (stream->in.seal) {
        int status = frame_seal_add(stream->in.seal,
                                    stream->in.destination + stream->in.message_position, count);
        if (status < 0)
            return status;
    }
    stream->in.message_position += count;
    stream->in.segment_remaining -= count;
    if (stream->in.segment_remaining > 0)
        return 0;
    stream->in.awaits_tag = stream->in.seal;
    return stream->in.awaits_tag ? 0 : segment_end(stream);
}

/* Take a segment's tag from the staging buffer. Return: 1; 0: incomplete; or an error. */
static int tag_from_staging(struct frame_stream *stream)
{
    if (stream->in.staging_end - stream->in.staging_begin < FRAME_SEAL_TAG_SIZE)
        return 0;
    int status =
        frame_seal_check_end(stream->in.seal, stream->in.staging + stream->in.staging_begin);
    stream->in.staging_begin += FRAME_SEAL_TAG_SIZE;
    if (status == 0)
        status = segment_end(stream);
    return status < 0 ? status : 1;
}

/* Take part of a segment from the staging buffer. Return: 1, or an error. */
static int segment_from_staging(struct frame_stream *stream)
{
    size_t count =
        MIN(stream->in.segment_remaining, stream->in.staging_end - stream->in.staging_begin);
    memcpy(stream->in.destination + stream->in.message_position,
           stream->in.staging + stream->in.staging_begin, count);
    stream->in.staging_begin += count;
    int status = segment_arrived(stream, count);
    return status < 0 ? status : 1;
}

/* Check the bytes at @at against the tag behind them; always right without seals. */
static int check_staged(struct frame_stream_in *in, const uint8_t *at, size_t size_bytes)
{
    return in->seal ? frame_seal_check(in->seal, at, size_bytes, at + size_bytes) : 0;
}

/* Take a frame that is not a segment; its payload and tag are complete. */
static int take_small_frame(struct frame_stream *stream, const struct frame *frame,
                            const uint8_t *payload)
{
    int status = frame->length > 0 ? check_staged(&stream->in, payload, frame->length) : 0;
    return status < 0 ? status : stream->events->small_frame(stream->context, frame, payload);
}

/*
 * Take one frame from the staging buffer. Return: 1; 0: incomplete; or an error. Before the tag of
 * a header was checked, use only its length, to know how many bytes must be here. A length that no
 * small frame has is an error already.
 */
static int frame_from_staging(struct frame_stream *stream)
{
    size_t count = stream->in.staging_end - stream->in.staging_begin;
    size_t tag_size = stream->in.seal ? FRAME_SEAL_TAG_SIZE : 0,
           size = FRAME_HEADER_SIZE + tag_size;
    const uint8_t *at = stream->in.staging + stream->in.staging_begin;
    struct frame frame;
    if (count < size)
        return 0;
    int status = frame_decode(at, &frame);
    if (status < 0)
        return stream->in.seal && check_staged(&stream->in, at, FRAME_HEADER_SIZE) ? -EBADMSG
                                                                                   : status;
    bool segment = type_opens_message(frame.type) || frame.type == FRAME_PART;
    if (!segment && frame.length > 0)
        size += frame.length + tag_size;
    if (count < size)
        return 0;
    stream->in.staging_begin += size;
    status = check_staged(&stream->in, at, FRAME_HEADER_SIZE);
    if (status == 0 && segment)
        status = segment_begin(stream, &frame);
    else if (status == 0)
        status = take_small_frame(stream, &frame, at + FRAME_HEADER_SIZE + tag_size);
    return status < 0 ? status : 1;
}

/* Parse all complete frames of the staging buffer; move the remaining bytes to its beginning. */
static int parse_staging(struct frame_stream *stream)
{
    int status = 1;
    while (status == 1 && stream->in.staging_begin < stream->in.staging_end)
        status = stream->in.awaits_tag   ? tag_from_staging(stream)
                 : stream->in.in_segment ? segment_from_staging(stream)
                                         : frame_from_staging(stream);
    if (status < 0)
        return status;
    size_t rest = stream->in.staging_end - stream->in.staging_begin;
    memmove(stream->in.staging, stream->in.staging + stream->in.staging_begin, rest);
    stream->in.staging_begin = 0;
    stream->in.staging_end = rest;
    return 0;
}

static ssize_t receive_once(struct frame_stream *stream)
{
    struct iovec parts[2];
    int part_count = 0;
    size_t direct = stream->in.in_segment ? stream->in.segment_remaining : 0;
    if (direct > 0)
        parts[part_count++] = (struct iovec){
            .iov_base = stream->in.destination + stream->in.message_position, .iov_len = direct};
    parts[part_count++] =
        (struct iovec){.iov_base = stream->in.staging + stream->in.staging_end,
                       .iov_len = FRAME_STREAM_STAGING_BYTES - stream->in.staging_end};
    ssize_t count = link_receive(stream->link, parts, part_count);
    if (count <= 0)
        return count == 0 ? -ESHUTDOWN : count;
    stream->bytes_received += (uint64_t)count;
    size_t of_segment = MIN((size_t)count, direct);
    stream->in.staging_end += (size_t)count - of_segment;
    int status = of_segment > 0 ? segment_arrived(stream, of_segment) : 0;
    if (status == 0)
        status = parse_staging(stream);
    assert(status != -EAGAIN); /* only the link returns -EAGAIN (no data), no event does */
    return status < 0 ? status : count;
}

/* Read until no data is left, the budget is used or an error occurs. */
static ssize_t receive_all(struct frame_stream *stream, size_t budget_bytes,
                           ssize_t (*once)(struct frame_stream *stream))
{
    size_t total = 0;
    while (total < budget_bytes) {
        ssize_t count = once(stream);
        if (count == -EAGAIN)
            break;
        if (count < 0)
            return count;
        total += (size_t)count;
    }
    return (ssize_t)total;
}

ssize_t frame_stream_receive(struct frame_stream *stream, size_t budget_bytes)
{
    return receive_all(stream, budget_bytes, receive_once);
}

static ssize_t discard_once(struct frame_stream *stream)
{
    struct iovec part = {.iov_base = stream->in.staging, .iov_len = FRAME_STREAM_STAGING_BYTES};
    ssize_t count = link_receive(stream->link, &part, 1);
    return count == 0 ? -ESHUTDOWN : count;
}

ssize_t frame_stream_discard(struct frame_stream *stream, size_t budget_bytes)
{
    return receive_all(stream, budget_bytes, discard_once);
}
