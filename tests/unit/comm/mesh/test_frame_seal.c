/* Tags: the same for both ends of a direction, and for nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "comm/mesh/frame_seal.h"

static const uint8_t key[FRAME_SEAL_KEY_SIZE] = {3, 1, 4};
static const char text[] = "the gradient of a unit";

static enum frame_seal_kind kind;

static int use_authentication(void **state)
{
    (void)state;
    kind = SEAL_AUTHENTICATED;
    return 0;
}

static int use_checksums(void **state)
{
    (void)state;
    kind = SEAL_CHECKSUMS;
    return 0;
}

static struct frame_seal *open_seal(const uint8_t *its_key)
{
    struct frame_seal *seal;
    assert_int_equal(frame_seal_new(kind, its_key, &seal), 0);
    return seal;
}

static void test_parts_in_order_are_right(void **state)
{
    (void)state;
    struct frame_seal *sender = open_seal(key), *receiver = open_seal(key);
    uint8_t tag[FRAME_SEAL_TAG_SIZE];
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(frame_seal_make(sender, text, sizeof(text), tag), 0);
        assert_int_equal(frame_seal_begin(receiver), 0); /* as they arrive */
        assert_int_equal(frame_seal_add(receiver, text, 5), 0);
        assert_int_equal(frame_seal_add(receiver, text + 5, sizeof(text) - 5), 0);
        assert_int_equal(frame_seal_check_end(receiver, tag), 0);
    }
    frame_seal_free(sender);
    frame_seal_free(receiver);
    frame_seal_free(NULL);
}

/* GMAC has a published answer: test case 13 of McGrew and Viega's GCM (a key of zeros, no data). */
static void test_the_known_answer(void **state)
{
    (void)state;
    static const uint8_t zeros[FRAME_SEAL_KEY_SIZE] = {0};
    static const uint8_t answer[FRAME_SEAL_TAG_SIZE] = {0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45,
                                                        0x36, 0xb9, 0xa9, 0x63, 0xb4, 0xf1,
                                                        0xc4, 0xcb, 0x73, 0x8b};
    struct frame_seal *seal = open_seal(zeros);
    assert_int_equal(frame_seal_check(seal, "", 0, answer), 0);
    frame_seal_free(seal);
}

static void test_repeated_dropped_and_foreign_ones_are_wrong(void **state)
{
    (void)state;
    static const uint8_t other_key[FRAME_SEAL_KEY_SIZE] = {3, 1, 5};
    uint8_t first[FRAME_SEAL_TAG_SIZE], second[FRAME_SEAL_TAG_SIZE];
    struct frame_seal *sender = open_seal(key);
    assert_int_equal(frame_seal_make(sender, text, sizeof(text), first), 0);
    assert_int_equal(frame_seal_make(sender, text, sizeof(text), second), 0);
    assert_memory_not_equal(first, second, FRAME_SEAL_TAG_SIZE);
    struct frame_seal *receiver = open_seal(key);
    assert_int_equal(frame_seal_check(receiver, text, sizeof(text), second),
                     -EBADMSG); /* dropped */
    assert_int_equal(frame_seal_check(receiver, text, sizeof(text), first),
                     -EBADMSG); /* too late */
    frame_seal_free(receiver);
    receiver = open_seal(key);
    assert_int_equal(frame_seal_check(receiver, text, sizeof(text), first), 0);
    assert_int_equal(frame_seal_check(receiver, text, sizeof(text), first),
                     -EBADMSG); /* repeated */
    frame_seal_free(receiver);
    receiver = open_seal(other_key);
    assert_int_equal(frame_seal_check(receiver, text, sizeof(text), first), -EBADMSG);
    frame_seal_free(receiver);
    frame_seal_free(sender);
}

static void test_no_bit_of_text_or_tag_may_change(void **state)
{
    (void)state;
    uint8_t bytes[sizeof(text) + FRAME_SEAL_TAG_SIZE];
    struct frame_seal *sender = open_seal(key);
    memcpy(bytes, text, sizeof(text));
    assert_int_equal(frame_seal_make(sender, text, sizeof(text), bytes + sizeof(text)), 0);
    for (unsigned bit = 0; bit < 8 * sizeof(bytes); bit++) {
        struct frame_seal *receiver = open_seal(key);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(frame_seal_check(receiver, bytes, sizeof(text), bytes + sizeof(text)),
                         -EBADMSG);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        frame_seal_free(receiver);
    }
    frame_seal_free(sender);
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup(test, use_authentication), cmocka_unit_test_setup(test, use_checksums)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_parts_in_order_are_right),
        cmocka_unit_test_setup(test_the_known_answer, use_authentication),
        BOTH(test_repeated_dropped_and_foreign_ones_are_wrong),
        BOTH(test_no_bit_of_text_or_tag_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
