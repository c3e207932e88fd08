/* Frame headers: encoded headers decode to the same, and headers that no correct peer sends are
 * refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/philox.h"
#include "comm/mesh/frame.h"
#include "comm/mesh/mesh.h"

static const struct frame good[] = {
    {FRAME_HELLO, 3, FRAME_HELLO_SIZE, 9, 0, 0},
    {FRAME_CHALLENGE, 3, FRAME_CHALLENGE_SIZE, 9, 0, 0},
    {FRAME_PROOF, 3, FRAME_PROOF_SIZE, 9, 0, 0},
    {FRAME_REFUSED, 3, 0, UINT64_MAX, 2, 0},
    {FRAME_CREDIT, 3, 0, 9, 0, MESH_MESSAGE_MAX},
    {FRAME_DATA, 3, 0, 9, UINT64_MAX, 0},
    {FRAME_DATA, 3, 17, 9, 5, 17},
    {FRAME_DATA, MESH_RANKS_MAX - 1, FRAME_SEGMENT_MAX, 9, 5, MESH_MESSAGE_MAX},
    {FRAME_OFFER, 3, 0, 9, 5, MESH_MESSAGE_MAX},
    {FRAME_ACCEPT, 3, 0, 9, 5, 0},
    {FRAME_DELIVERY, 3, FRAME_SEGMENT_MAX, 9, 5, FRAME_SEGMENT_MAX + 1},
    {FRAME_PART, 3, FRAME_SEGMENT_MAX, 9, 0, 0},
    {FRAME_HEARTBEAT, 0, 0, 9, 0, 0},
    {FRAME_FAULT, 3, FRAME_SMALL_MAX, 9, 0, 0},
    {FRAME_BYE, 3, 0, 9, 0, 0},
};

static const struct frame bad[] = {
    {FRAME_HELLO, 3, FRAME_HELLO_SIZE - 1, 9, 0, 0},
    {FRAME_PROOF, 3, FRAME_PROOF_SIZE + 1, 9, 0, 0},
    {FRAME_CREDIT, 3, 0, 9, 1, 10},
    {FRAME_CREDIT, 3, 0, 9, 0, MESH_MESSAGE_MAX + 1},
    {FRAME_DATA, 3, 16, 9, 5, 17},
    {FRAME_DATA, 3, 18, 9, 5, 17},
    {FRAME_DATA, 3, FRAME_SEGMENT_MAX + 1, 9, 5, FRAME_SEGMENT_MAX + 1},
    {FRAME_DATA, 3, FRAME_SEGMENT_MAX, 9, 5, MESH_MESSAGE_MAX + 1},
    {FRAME_DATA, MESH_RANKS_MAX, 17, 9, 5, 17},
    {FRAME_OFFER, 3, 0, 9, 5, UINT64_MAX},
    {FRAME_ACCEPT, 3, 0, 9, 5, 1},
    {FRAME_DELIVERY, 3, 0, 9, 5, 1},
    {FRAME_PART, 3, 0, 9, 0, 0},
    {FRAME_PART, 3, FRAME_SEGMENT_MAX + 1, 9, 0, 0},
    {FRAME_PART, 3, 1, 9, 1, 0},
    {FRAME_HEARTBEAT, 3, 1, 9, 0, 0},
    {FRAME_FAULT, 3, FRAME_SMALL_MAX + 1, 9, 0, 0},
    {FRAME_BYE, 3, 0, 9, 0, 1},
};

static bool frames_equal(const struct frame *a, const struct frame *b)
{
    return a->type == b->type && a->source == b->source && a->length == b->length &&
           a->generation == b->generation && a->tag == b->tag && a->size == b->size;
}

static void test_what_is_encoded_is_decoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        uint8_t header[FRAME_HEADER_SIZE];
        struct frame frame;
        frame_encode(&good[i], header);
        assert_int_equal(frame_decode(header, &frame), 0);
        assert_true(frames_equal(&frame, &good[i]));
    }
}

static void test_numbers_that_a_type_forbids_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        uint8_t header[FRAME_HEADER_SIZE];
        struct frame frame;
        frame_encode(&bad[i], header);
        if (frame_decode(header, &frame) != -EPROTO)
            fail_msg("bad frame %zu of type %d was taken", i, (int)bad[i].type);
    }
}

static void test_another_magic_version_or_type_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        uint8_t value;
    } changes[] = {{0, 'x'}, {3, 0}, {4, FRAME_VERSION + 1}, {5, 0}, {5, FRAME_TYPE_END}, {5, 255},
                   {6, 1},   {7, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(changes); i++) {
        uint8_t header[FRAME_HEADER_SIZE];
        struct frame frame;
        frame_encode(&(struct frame){.type = FRAME_HEARTBEAT, .source = 3}, header);
        header[changes[i].offset] = changes[i].value;
        assert_int_equal(frame_decode(header, &frame), -EPROTO);
    }
}

/* Accepted headers obey the bounds that the rest of the code relies on. */
static void test_random_headers_never_pass_the_bounds(void **state)
{
    (void)state;
    struct philox_key key = philox_key_make(1, 2);
    unsigned accepted = 0;
    for (uint64_t i = 0; i < 200000; i++) {
        uint8_t header[FRAME_HEADER_SIZE];
        uint32_t words[4];
        struct frame frame = {0};
        philox_block(key, i, 0, words);
        frame_encode(&good[words[0] % ARRAY_COUNT(good)], header);
        header[words[1] % FRAME_HEADER_SIZE] = (uint8_t)words[2];
        header[(words[1] >> 8) % FRAME_HEADER_SIZE] ^= (uint8_t)(words[3] & words[2]);
        if (frame_decode(header, &frame) < 0)
            continue;
        accepted++;
        assert_true(frame.length <= FRAME_SEGMENT_MAX && frame.size <= MESH_MESSAGE_MAX);
        assert_true(frame.source < MESH_RANKS_MAX);
        uint8_t again[FRAME_HEADER_SIZE];
        frame_encode(&frame, again);
        assert_memory_equal(header, again, sizeof(header));
    }
    assert_true(accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_encoded_is_decoded),
        cmocka_unit_test(test_numbers_that_a_type_forbids_are_refused),
        cmocka_unit_test(test_another_magic_version_or_type_is_refused),
        cmocka_unit_test(test_random_headers_never_pass_the_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
