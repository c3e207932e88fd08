/* Matching and credit, without a link. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/mesh/inbox.h"

#define WINDOW 10000u

static struct mesh_request receive_of(uint64_t tag, void *data, size_t size)
{
    return (struct mesh_request){.tag = tag, .data = data, .size_bytes = size};
}

static uint8_t *arrive(struct inbox *inbox, uint64_t tag, size_t size)
{
    uint8_t *destination = NULL;
    size_t wanted;
    assert_int_equal(inbox_arrival(inbox, tag, size, &destination, &wanted), 0);
    return destination;
}

static void test_a_posted_receive_is_the_destination(void **state)
{
    (void)state;
    struct inbox inbox;
    uint8_t first[8], second[8];
    size_t size;
    struct mesh_request a = receive_of(1, first, 8), b = receive_of(1, second, 8);
    inbox_init(&inbox, WINDOW);
    assert_int_equal(inbox_post(&inbox, &a, &size), 0);
    assert_int_equal(inbox_post(&inbox, &b, &size), 0);
    assert_ptr_equal(arrive(&inbox, 1, 8), first);
    assert_int_equal(inbox_waiting(&inbox), 2);
    inbox_arrived(&inbox);
    assert_true(a.done && !b.done);
    assert_ptr_equal(arrive(&inbox, 1, 8), second);
    inbox_arrived(&inbox);
    assert_true(b.done && b.result == 0);
    assert_int_equal(inbox_waiting(&inbox), 0);
}

static void test_a_message_is_taken_while_it_arrives(void **state)
{
    (void)state;
    struct inbox inbox;
    size_t size;
    struct mesh_request a = receive_of(1, NULL, 8);
    inbox_init(&inbox, WINDOW);
    memcpy(arrive(&inbox, 1, 8), "arrived", 8);
    assert_int_equal(inbox_post(&inbox, &a, &size), 0);
    assert_false(a.done);
    assert_int_equal(inbox_waiting(&inbox), 1);
    inbox_arrived(&inbox);
    assert_true(a.done);
    assert_string_equal((char *)a.message->data, "arrived");
    message_free(a.message);
}

static void test_credit_is_kept_until_a_message_is_taken(void **state)
{
    (void)state;
    struct inbox inbox;
    uint8_t *destination;
    size_t size;
    inbox_init(&inbox, WINDOW);
    const size_t half = WINDOW / 2 - INBOX_MESSAGE_CHARGE;
    for (unsigned i = 0; i < 2; i++) {
        arrive(&inbox, i, half);
        inbox_arrived(&inbox);
    }
    assert_int_equal(inbox_arrival(&inbox, 9, 0, &destination, &size), -EPROTO);
    assert_int_equal(inbox_take_owed(&inbox), 0);
    uint8_t *data = malloc(half);
    struct mesh_request a = receive_of(1, data, half);
    assert_int_equal(inbox_post(&inbox, &a, &size), 0);
    assert_true(a.done);
    message_free(a.message);
    free(data);
    /* owed is not yet given: the peer cannot know, and may not use it */
    assert_int_equal(inbox_arrival(&inbox, 9, 0, &destination, &size), -EPROTO);
    assert_int_equal(inbox_take_owed(&inbox), WINDOW / 2);
    assert_int_equal(inbox_take_owed(&inbox), 0);
    arrive(&inbox, 9, half);
    inbox_arrived(&inbox);
    inbox_fail(&inbox, -ECONNRESET);
}

static void test_offers_are_matched_like_messages(void **state)
{
    (void)state;
    struct inbox inbox;
    struct mesh_request *taken;
    uint8_t data[100], other[100], *destination;
    size_t size;
    struct mesh_request a = receive_of(1, data, 100), b = receive_of(2, other, 100);
    inbox_init(&inbox, 1);
    assert_int_equal(inbox_post(&inbox, &a, &size), 0);
    assert_int_equal(inbox_offer(&inbox, 2, 100, 0, &taken, &size), 0);
    assert_null(taken);
    assert_int_equal(inbox_offer(&inbox, 1, 100, 1, &taken, &size), 0);
    assert_ptr_equal(taken, &a);
    assert_int_equal(inbox_post(&inbox, &b, &size), 0);
    assert_ptr_equal(TAILQ_FIRST(&inbox.accepting), &b); /* the I/O thread says so to the peer */
    TAILQ_REMOVE(&inbox.accepting, &b, entry);
    TAILQ_INSERT_TAIL(&inbox.accepted, &b, entry);
    assert_int_equal(inbox_delivery(&inbox, 7, 100, &destination), -EPROTO);
    assert_int_equal(inbox_delivery(&inbox, 0, 99, &destination), -EPROTO);
    assert_int_equal(inbox_delivery(&inbox, 0, 100, &destination), 0);
    assert_ptr_equal(destination, other);
    inbox_arrived(&inbox);
    assert_true(b.done && !a.done);
    assert_int_equal(inbox_delivery(&inbox, 0, 100, &destination), -EPROTO); /* once */
    inbox_fail(&inbox, -ECONNRESET);
    assert_int_equal(a.result, -ECONNRESET);
}

static void test_offers_have_a_limit(void **state)
{
    (void)state;
    struct inbox inbox;
    struct mesh_request *taken;
    size_t size;
    inbox_init(&inbox, 1);
    for (unsigned i = 0; i < INBOX_OFFERS_MAX; i++)
        assert_int_equal(inbox_offer(&inbox, 1, 5, i, &taken, &size), 0);
    assert_int_equal(inbox_offer(&inbox, 1, 5, INBOX_OFFERS_MAX, &taken, &size), -EPROTO);
    inbox_fail(&inbox, -ECONNRESET);
}

static void test_another_size_is_told(void **state)
{
    (void)state;
    struct inbox inbox;
    struct mesh_request *taken;
    uint8_t data[16], *destination;
    size_t size = 0;
    inbox_init(&inbox, WINDOW);
    struct mesh_request a = receive_of(1, data, 16), b = receive_of(2, data, 16),
                        c = receive_of(3, data, 16);
    assert_int_equal(inbox_post(&inbox, &a, &size), 0);
    assert_int_equal(inbox_arrival(&inbox, 1, 15, &destination, &size), -EMSGSIZE);
    assert_int_equal(size, 16);
    assert_int_equal(a.result, -EMSGSIZE);
    assert_int_equal(inbox_post(&inbox, &b, &size), 0);
    assert_int_equal(inbox_offer(&inbox, 2, 17, 0, &taken, &size), -EMSGSIZE);
    assert_int_equal(b.result, -EMSGSIZE);
    arrive(&inbox, 3, 4);
    inbox_arrived(&inbox);
    assert_int_equal(inbox_post(&inbox, &c, &size), -EMSGSIZE);
    assert_int_equal(size, 4);
    inbox_fail(&inbox, -ECONNRESET);
}

static void test_a_failure_completes_everything(void **state)
{
    (void)state;
    struct inbox inbox;
    uint8_t data[16];
    size_t size;
    struct mesh_request posted = receive_of(1, data, 16), claimed = receive_of(2, data, 16);
    inbox_init(&inbox, WINDOW);
    assert_int_equal(inbox_post(&inbox, &posted, &size), 0);
    arrive(&inbox, 3, 16);
    inbox_arrived(&inbox);
    arrive(&inbox, 2, 16);
    assert_int_equal(inbox_post(&inbox, &claimed, &size), 0);
    inbox_fail(&inbox, -ECONNRESET);
    assert_int_equal(posted.result, -ECONNRESET);
    assert_int_equal(claimed.result, -ECONNRESET);
    assert_true(posted.done && claimed.done);
    message_free(claimed.message); /* its request's, as mesh_wait() does; the others are freed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_posted_receive_is_the_destination),
        cmocka_unit_test(test_a_message_is_taken_while_it_arrives),
        cmocka_unit_test(test_credit_is_kept_until_a_message_is_taken),
        cmocka_unit_test(test_offers_are_matched_like_messages),
        cmocka_unit_test(test_offers_have_a_limit),
        cmocka_unit_test(test_another_size_is_told),
        cmocka_unit_test(test_a_failure_completes_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
