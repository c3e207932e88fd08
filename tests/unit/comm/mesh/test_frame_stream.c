/*
 * Frames over a link that takes and gives a few bytes at a time, at the worst places: the simulated
 * link is the second implementation of the seam, and has no descriptor at all.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "comm/mesh/frame_stream.h"

/* A one-way pipe; both of its ends are this one link. */
struct pipe_link {
    struct link link;
    struct bytes held;
    size_t chunk; /* at most so many bytes a call; grows by one each time, up to chunk_max */
    size_t chunk_max;
    size_t room; /* bytes that may be sent before -EAGAIN */
    bool closed;
};

static ssize_t pipe_send(struct link *link, const struct iovec *parts, int part_count)
{
    struct pipe_link *self = (struct pipe_link *)link;
    size_t left = MIN(self->chunk, self->room), sent = 0;
    self->chunk = self->chunk >= self->chunk_max ? 1 : self->chunk + 1;
    for (int i = 0; i < part_count && left > 0; i++) {
        size_t count = MIN(parts[i].iov_len, left);
        assert_int_equal(bytes_append(&self->held, parts[i].iov_base, count), 0);
        left -= count;
        sent += count;
        self->room -= count;
    }
    return sent > 0 ? (ssize_t)sent : -EAGAIN;
}

static ssize_t pipe_receive(struct link *link, const struct iovec *parts, int part_count)
{
    struct pipe_link *self = (struct pipe_link *)link;
    size_t left = MIN(self->chunk, self->held.size_bytes), got = 0;
    self->chunk = self->chunk >= self->chunk_max ? 1 : self->chunk + 1;
    for (int i = 0; i < part_count && left > 0; i++) {
        size_t count = MIN(parts[i].iov_len, left);
        memcpy(parts[i].iov_base, self->held.data + got, count);
        left -= count;
        got += count;
    }
    bytes_consume(&self->held, got);
    return got > 0 ? (ssize_t)got : self->closed ? 0 : -EAGAIN;
}

static const struct link_operations pipe_operations = {.send = pipe_send, .receive = pipe_receive};

/* The receiving side's events. */
struct seen {
    uint8_t *destination;
    uint64_t message_size;
    struct bytes log; /* "D5:12 " a message with tag 5 of 12 bytes, "H" a heartbeat, "O" an offer,
                         "F:text" */
    bool contents_right;
    unsigned items_sent;
};

static uint8_t byte_of(uint64_t tag, size_t i)
{
    return (uint8_t)(tag * 7 + i * 13 + i / 251);
}

static int message_begins(void *context, const struct frame *frame, uint8_t **ret_destination)
{
    struct seen *seen = context;
    seen->message_size = frame->size;
    seen->destination = malloc(frame->size + 1);
    assert_non_null(seen->destination);
    *ret_destination = seen->destination;
    return 0;
}

static int message_ends(void *context, const struct frame *frame)
{
    struct seen *seen = context;
    for (size_t i = 0; i < frame->size; i++)
        seen->contents_right &= seen->destination[i] == byte_of(frame->tag, i);
    free(seen->destination);
    seen->destination = NULL;
    return bytes_append_format(&seen->log, "D%u:%u ", (unsigned)frame->tag, (unsigned)frame->size);
}

static int small_frame(void *context, const struct frame *frame, const uint8_t *payload)
{
    struct seen *seen = context;
    if (frame->type == FRAME_FAULT)
        return bytes_append_format(&seen->log, "F:%.*s ", (int)frame->length,
                                   (const char *)payload);
    return bytes_append_format(&seen->log, "%s ",
                               frame->type == FRAME_HEARTBEAT ? "H"
                               : frame->type == FRAME_OFFER   ? "O"
                                                              : "?");
}

static void item_sent(void *context, struct frame_stream_item *item)
{
    struct seen *seen = context;
    (void)item;
    seen->items_sent++;
}

static const struct frame_stream_events events = {message_begins, message_ends, small_frame,
                                                  item_sent};

struct fixture {
    struct pipe_link pipe;
    struct seen seen;
    struct frame_stream sender, receiver;
};

static bool sealed; /* as after a handshake */

static int with_seals(void **state)
{
    (void)state;
    sealed = true;
    return 0;
}

static int without_seals(void **state)
{
    (void)state;
    sealed = false;
    return 0;
}

static struct fixture *fixture_new(size_t chunk_max)
{
    static const uint8_t there[FRAME_SEAL_KEY_SIZE] = {1}, back[FRAME_SEAL_KEY_SIZE] = {2};
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->pipe = (struct pipe_link){
        .link.operations = &pipe_operations, .chunk = 1, .chunk_max = chunk_max, .room = SIZE_MAX};
    fixture->seen.contents_right = true;
    frame_stream_init(&fixture->sender, &fixture->pipe.link, &events, &fixture->seen, 3, 1);
    frame_stream_init(&fixture->receiver, &fixture->pipe.link, &events, &fixture->seen, 3, 2);
    if (sealed) {
        assert_int_equal(frame_stream_seal(&fixture->sender, SEAL_AUTHENTICATED, there, back), 0);
        assert_int_equal(frame_stream_seal(&fixture->receiver, SEAL_AUTHENTICATED, back, there), 0);
    }
    return fixture;
}

static void fixture_free(struct fixture *fixture)
{
    frame_stream_done(&fixture->sender);
    frame_stream_done(&fixture->receiver);
    bytes_done(&fixture->pipe.held);
    bytes_done(&fixture->seen.log);
    free(fixture->seen.destination);
    free(fixture);
}

static uint8_t *data_of(uint64_t tag, size_t size)
{
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++)
        data[i] = byte_of(tag, i);
    return data;
}

static void expect_log(struct fixture *fixture, const char *expected)
{
    assert_int_equal(bytes_append(&fixture->seen.log, "", 1), 0);
    assert_string_equal((char *)fixture->seen.log.data, expected);
    assert_true(fixture->seen.contents_right);
}

static void test_any_cut_of_the_bytes_gives_the_same_frames(void **state)
{
    (void)state;
    static const size_t chunks[] = {1, 7, 41, 100, 5000};
    static const size_t sizes[] = {0, 1, 40, 300, FRAME_STREAM_STAGING_BYTES, 40000};
    for (size_t c = 0; c < ARRAY_COUNT(chunks); c++) {
        struct fixture *fixture = fixture_new(chunks[c]);
        struct frame_stream_item items[ARRAY_COUNT(sizes)];
        uint8_t *data[ARRAY_COUNT(sizes)];
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
            data[i] = data_of(i, sizes[i]);
            items[i] = (struct frame_stream_item){
                .type = FRAME_DATA, .tag = i, .data = data[i], .size_bytes = sizes[i]};
            frame_stream_queue(&fixture->sender, &items[i]);
        }
        struct frame_stream_item offer = {.type = FRAME_OFFER, .tag = 9, .size_bytes = 1000};
        frame_stream_queue(&fixture->sender, &offer);
        assert_int_equal(frame_stream_put(&fixture->sender, FRAME_HEARTBEAT, 0, 0, NULL, 0), 0);
        assert_int_equal(frame_stream_send(&fixture->sender), 0);
        assert_true(frame_stream_idle(&fixture->sender));
        assert_int_equal(fixture->seen.items_sent, ARRAY_COUNT(sizes) + 1);
        assert_true(frame_stream_receive(&fixture->receiver, SIZE_MAX) > 0);
        expect_log(fixture, "H D0:0 D1:1 D2:40 D3:300 D4:16384 D5:40000 O ");
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
            free(data[i]);
        fixture_free(fixture);
    }
}

static void test_a_small_frame_goes_between_two_segments(void **state)
{
    (void)state;
    const size_t size = 3 * FRAME_SEGMENT_MAX;
    struct fixture *fixture = fixture_new(1 << 16);
    uint8_t *data = data_of(4, size);
    struct frame_stream_item item = {
        .type = FRAME_DATA, .tag = 4, .data = data, .size_bytes = size};
    fixture->pipe.chunk = 1 << 16;
    fixture->pipe.room = 70000; /* in the first segment */
    frame_stream_queue(&fixture->sender, &item);
    assert_int_equal(frame_stream_send(&fixture->sender), 0);
    assert_int_equal(frame_stream_put(&fixture->sender, FRAME_HEARTBEAT, 0, 0, NULL, 0), 0);
    fixture->pipe.room = SIZE_MAX;
    assert_int_equal(frame_stream_send(&fixture->sender), 0);
    assert_true(frame_stream_receive(&fixture->receiver, SIZE_MAX) > 0);
    expect_log(fixture, "H D4:3145728 ");
    free(data);
    fixture_free(fixture);
}

static void test_bulk_lets_urgent_messages_go_first(void **state)
{
    (void)state;
    const size_t size = 2 * FRAME_SEGMENT_MAX;
    struct fixture *fixture = fixture_new(1 << 16);
    uint8_t *data = data_of(4, size), *urgent_data = data_of(5, 10);
    struct frame_stream_item bulk[2], offer, urgent;
    bulk[0] = bulk[1] = (struct frame_stream_item){
        .type = FRAME_DATA, .bulk = true, .tag = 4, .data = data, .size_bytes = size};
    offer = (struct frame_stream_item){.type = FRAME_OFFER, .bulk = true, .size_bytes = size};
    urgent = (struct frame_stream_item){
        .type = FRAME_DATA, .tag = 5, .data = urgent_data, .size_bytes = 10};
    frame_stream_queue(&fixture->sender, &bulk[0]);
    frame_stream_queue(&fixture->sender, &bulk[1]);
    fixture->pipe.chunk = 1 << 16;
    fixture->pipe.room = 70000; /* in the first segment: that message is not mixed with another */
    assert_int_equal(frame_stream_send(&fixture->sender), 0);
    frame_stream_queue(&fixture->sender, &offer);
    frame_stream_queue(&fixture->sender, &urgent);
    fixture->pipe.room = SIZE_MAX;
    assert_int_equal(frame_stream_send(&fixture->sender), 0);
    assert_true(frame_stream_idle(&fixture->sender));
    assert_true(frame_stream_receive(&fixture->receiver, SIZE_MAX) > 0);
    expect_log(fixture, "D4:2097152 O D5:10 D4:2097152 ");
    assert_int_equal(fixture->seen.items_sent, 4);
    free(urgent_data);
    free(data);
    fixture_free(fixture);
}

/* The data of an abandoned message are dropped at once; the next frames are still understood. */
static void test_a_fault_can_follow_an_abandoned_message(void **state)
{
    (void)state;
    static const size_t rooms[] = {0,
                                   1,
                                   FRAME_HEADER_SIZE,
                                   5000,
                                   FRAME_HEADER_SIZE + FRAME_SEAL_TAG_SIZE + FRAME_SEGMENT_MAX + 7,
                                   FRAME_SEGMENT_MAX + 2 * FRAME_HEADER_SIZE +
                                       2 * FRAME_SEAL_TAG_SIZE};
    for (size_t r = 0; r < ARRAY_COUNT(rooms); r++) {
        const size_t size = 2 * FRAME_SEGMENT_MAX + 5;
        struct fixture *fixture = fixture_new(1 << 16);
        uint8_t *data = data_of(4, size);
        struct frame_stream_item item = {
            .type = FRAME_DATA, .tag = 4, .data = data, .size_bytes = size};
        struct frame_stream_item next = {
            .type = FRAME_DATA, .tag = 5, .data = data, .size_bytes = 10};
        struct frame_stream_items abandoned;
        fixture->pipe.room = rooms[r];
        frame_stream_queue(&fixture->sender, &item);
        frame_stream_queue(&fixture->sender, &next);
        assert_int_equal(frame_stream_send(&fixture->sender), 0);
        assert_int_equal(frame_stream_abandon(&fixture->sender, &abandoned), 0);
        assert_ptr_equal(TAILQ_LAST(&abandoned, frame_stream_items), &next);
        memset(data, 0xee, size);
        free(data);
        assert_int_equal(frame_stream_put(&fixture->sender, FRAME_FAULT, 0, 0, "why", 3), 0);
        fixture->pipe.room = SIZE_MAX;
        assert_int_equal(frame_stream_send(&fixture->sender), 0);
        assert_true(frame_stream_idle(&fixture->sender));
        assert_true(frame_stream_receive(&fixture->receiver, SIZE_MAX) > 0);
        expect_log(fixture, "F:why ");
        assert_int_equal(fixture->seen.items_sent, 0);
        fixture_free(fixture);
    }
}

/* Flip any one bit of the sent bytes, and cut any piece off their end or out of their middle. */
static void test_what_was_changed_on_the_way_is_no_message(void **state)
{
    (void)state;
    const size_t size = 300;
    uint8_t *data = data_of(4, size);
    const size_t wire = FRAME_HEADER_SIZE + size + 2 * FRAME_SEAL_TAG_SIZE;
    for (size_t byte = 0; byte < wire; byte++) {
        struct fixture *fixture = fixture_new(1 << 16);
        struct frame_stream_item item = {
            .type = FRAME_DATA, .tag = 4, .data = data, .size_bytes = size};
        struct frame_stream_item next = {
            .type = FRAME_DATA, .tag = 5, .data = data, .size_bytes = size};
        frame_stream_queue(&fixture->sender, &item);
        frame_stream_queue(&fixture->sender, &next);
        assert_int_equal(frame_stream_send(&fixture->sender), 0);
        assert_int_equal(fixture->pipe.held.size_bytes, 2 * wire);
        if (byte % 2 == 0) {
            fixture->pipe.held.data[byte] ^= (uint8_t)(1u << byte % 8);
        } else { /* one byte less */
            memmove(fixture->pipe.held.data + byte, fixture->pipe.held.data + byte + 1,
                    2 * wire - byte - 1);
            fixture->pipe.held.size_bytes--;
        }
        assert_true(frame_stream_receive(&fixture->receiver, SIZE_MAX) < 0);
        expect_log(fixture, "");
        fixture_free(fixture);
    }
    free(data);
}

static void put_raw(struct fixture *fixture, struct frame frame)
{
    uint8_t header[FRAME_HEADER_SIZE];
    static const uint8_t zeros[FRAME_SEGMENT_MAX];
    frame_encode(&frame, header);
    assert_int_equal(bytes_append(&fixture->pipe.held, header, sizeof(header)), 0);
    assert_int_equal(bytes_append(&fixture->pipe.held, zeros, frame.length), 0);
}

static void test_segments_out_of_order_are_refused(void **state)
{
    (void)state;
    const struct frame open = {
        .type = FRAME_DATA, .size = FRAME_SEGMENT_MAX + 10, .length = FRAME_SEGMENT_MAX};
    const struct frame cases[][2] = {
        {{.type = FRAME_PART, .length = 10}, {0}},
        {open, {.type = FRAME_DATA, .size = 1, .length = 1}},
        {open, {.type = FRAME_PART, .length = 9}},
        {open, {.type = FRAME_PART, .length = 11}},
        {{.type = FRAME_DATA, .size = 5, .length = 5}, {.type = FRAME_PART, .length = 5}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct fixture *fixture = fixture_new(1 << 16);
        put_raw(fixture, cases[i][0]);
        if (cases[i][1].type != 0)
            put_raw(fixture, cases[i][1]);
        assert_int_equal(frame_stream_receive(&fixture->receiver, SIZE_MAX), -EPROTO);
        fixture_free(fixture);
    }
}

static void test_the_end_of_the_stream_is_told(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_new(100);
    put_raw(fixture, (struct frame){.type = FRAME_HEARTBEAT});
    assert_true(frame_stream_receive(&fixture->receiver, SIZE_MAX) > 0);
    assert_int_equal(frame_stream_receive(&fixture->receiver, SIZE_MAX), 0);
    fixture->pipe.closed = true;
    assert_int_equal(frame_stream_receive(&fixture->receiver, SIZE_MAX), -ESHUTDOWN);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_any_cut_of_the_bytes_gives_the_same_frames, without_seals),
        cmocka_unit_test_setup(test_any_cut_of_the_bytes_gives_the_same_frames, with_seals),
        cmocka_unit_test_setup(test_a_small_frame_goes_between_two_segments, without_seals),
        cmocka_unit_test_setup(test_a_small_frame_goes_between_two_segments, with_seals),
        cmocka_unit_test_setup(test_bulk_lets_urgent_messages_go_first, with_seals),
        cmocka_unit_test_setup(test_a_fault_can_follow_an_abandoned_message, without_seals),
        cmocka_unit_test_setup(test_a_fault_can_follow_an_abandoned_message, with_seals),
        cmocka_unit_test_setup(test_what_was_changed_on_the_way_is_no_message, with_seals),
        cmocka_unit_test_setup(test_segments_out_of_order_are_refused, without_seals),
        cmocka_unit_test_setup(test_the_end_of_the_stream_is_told, without_seals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
