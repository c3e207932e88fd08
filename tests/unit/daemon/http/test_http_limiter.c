/*
 * Tests of the HTTP connections that stay: a new one finds room as long as another one is idle, no
 * address keeps others out, and every connection has a deadline.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/http/http_limiter.h"

static const struct http_limits limits = {
    .total = 8,
    .per_address = 4,
    .refused = 2,
    .grace_ns = 0,
    .first_request_ns = 10,
    .next_request_ns = 30,
    .answer_ns = 100,
    .bytes_per_second = 1000,
};

struct table {
    struct http_limiter limiter;
    struct http_visitor visitors[32];
    unsigned count;
};

static unsigned dismissed_count;

static void count_dismissed(struct http_visitor *visitor)
{
    (void)visitor;
    dismissed_count++;
}

static int begin(void **state)
{
    struct table *table = calloc(1, sizeof(*table));

    assert_non_null(table);
    http_limiter_init(&table->limiter, &limits, count_dismissed);
    dismissed_count = 0;
    *state = table;
    return 0;
}

static int end(void **state)
{
    free(*state);
    return 0;
}

static struct http_visitor *enter(struct table *table, const char *address)
{
    struct http_visitor *visitor = &table->visitors[table->count++];
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, address, &four.sin_addr) == 1) {
        http_limiter_enter(&table->limiter, visitor, (struct sockaddr *)&four, table->count);
    } else {
        assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
        http_limiter_enter(&table->limiter, visitor, (struct sockaddr *)&six, table->count);
    }
    return visitor;
}

static void test_half_requests_make_room_for_others(void **state)
{
    struct table *table = *state;
    struct http_visitor *first = enter(table, "127.0.0.1");

    for (unsigned i = 1; i < limits.total; i++)
        assert_int_equal(enter(table, "127.0.0.1")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(dismissed_count, 0);
    assert_int_equal(enter(table, "10.0.0.1")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(first->visit, HTTP_VISIT_DISMISSED);
    assert_int_equal(enter(table, "127.0.0.1")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(dismissed_count, 2);
    assert_int_equal(table->limiter.counted, limits.total);
}

static void test_a_request_on_its_way_makes_no_room(void **state)
{
    static const struct http_limits patient = {
        .total = 1, .per_address = 1, .refused = 1, .grace_ns = 10, .bytes_per_second = 1};
    struct table *table = *state;

    table->limiter.limits = &patient;
    struct http_visitor *first = enter(table, "10.0.0.1"); /* at 1 */
    assert_int_equal(enter(table, "10.0.0.2")->visit, HTTP_VISIT_REFUSED);
    assert_int_equal(first->visit, HTTP_VISIT_WAITS);
    table->count = 10;
    assert_int_equal(enter(table, "10.0.0.2")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(first->visit, HTTP_VISIT_DISMISSED);
}

static void test_the_address_with_most_gives_up_first(void **state)
{
    struct table *table = *state;
    struct http_visitor *quiet = enter(table, "10.0.0.1");
    struct http_visitor *greedy = NULL;

    for (unsigned i = 1; i < limits.total; i++) {
        struct http_visitor *one = enter(table, "127.0.0.1");
        greedy = greedy ? greedy : one;
    }
    assert_int_equal(enter(table, "10.0.0.2")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(quiet->visit, HTTP_VISIT_WAITS);
    assert_int_equal(greedy->visit, HTTP_VISIT_DISMISSED);
}

static void test_one_address_has_a_share(void **state)
{
    struct table *table = *state;

    for (unsigned i = 0; i < limits.per_address; i++)
        http_limiter_answers(&table->limiter, enter(table, "10.0.0.1"), 1, 0);
    assert_int_equal(enter(table, "10.0.0.1")->visit, HTTP_VISIT_REFUSED);
    assert_int_equal(enter(table, "10.0.0.2")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(dismissed_count, 0);
}

static void test_an_ipv6_network_is_one_address(void **state)
{
    struct table *table = *state;

    for (unsigned i = 0; i < limits.per_address; i++)
        http_limiter_answers(&table->limiter, enter(table, i % 2 ? "fd00::1" : "fd00::2"), 1, 0);
    assert_int_equal(enter(table, "fd00::3")->visit, HTTP_VISIT_REFUSED);
    assert_int_equal(enter(table, "fd00:0:0:1::3")->visit, HTTP_VISIT_WAITS);
}

static void test_answers_are_shared_out_among_addresses(void **state)
{
    struct table *table = *state;

    for (unsigned i = 0; i < limits.total; i++)
        http_limiter_answers(&table->limiter, enter(table, "127.0.0.1"), 1, 0);
    assert_int_equal(enter(table, "127.0.0.1")->visit, HTTP_VISIT_REFUSED);
    assert_int_equal(dismissed_count, 0);
    assert_int_equal(enter(table, "10.0.0.1")->visit, HTTP_VISIT_WAITS);
    assert_int_equal(table->visitors[0].visit, HTTP_VISIT_DISMISSED);
}

static void test_refusals_are_bounded_too(void **state)
{
    struct table *table = *state;
    struct http_visitor *refused[3];

    for (unsigned i = 0; i < limits.total; i++)
        http_limiter_answers(&table->limiter, enter(table, "127.0.0.1"), 1, 0);
    for (unsigned i = 0; i < 3; i++)
        refused[i] = enter(table, "127.0.0.1");
    assert_int_equal(refused[0]->visit, HTTP_VISIT_DISMISSED);
    assert_int_equal(refused[1]->visit, HTTP_VISIT_REFUSED);
    assert_int_equal(refused[2]->visit, HTTP_VISIT_REFUSED);
}

static void test_every_connection_has_an_end(void **state)
{
    struct table *table = *state;
    struct http_visitor *visitor = enter(table, "10.0.0.1"); /* at 1 */

    assert_int_equal(http_limiter_expire(&table->limiter, 10), 11);
    http_limiter_answers(&table->limiter, visitor, 3000, 10);
    assert_int_equal(http_limiter_expire(&table->limiter, 11), 110 + 3 * NS_PER_SECOND);
    http_limiter_waits(&table->limiter, visitor, 20);
    assert_int_equal(http_limiter_expire(&table->limiter, 49), 50);
    assert_int_equal(http_limiter_expire(&table->limiter, 50), UINT64_MAX);
    assert_int_equal(visitor->visit, HTTP_VISIT_DISMISSED);
    assert_int_equal(dismissed_count, 1);
    http_limiter_waits(&table->limiter, visitor, 51); /* the request in flight ends late */
    assert_int_equal(visitor->visit, HTTP_VISIT_DISMISSED);
    http_limiter_leave(&table->limiter, visitor);
    assert_int_equal(table->limiter.counted, 0);
}

static void test_addresses_are_forgotten(void **state)
{
    struct table *table = *state;

    for (unsigned i = 0; i < 2 * HTTP_VISITORS_MAX; i++) {
        char address[32];
        snprintf(address, sizeof(address), "10.0.%u.%u", i / 256, i % 256);
        table->count = 0;
        http_limiter_leave(&table->limiter, enter(table, address));
    }
    assert_int_equal(table->limiter.counted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_half_requests_make_room_for_others, begin, end),
        cmocka_unit_test_setup_teardown(test_a_request_on_its_way_makes_no_room, begin, end),
        cmocka_unit_test_setup_teardown(test_the_address_with_most_gives_up_first, begin, end),
        cmocka_unit_test_setup_teardown(test_one_address_has_a_share, begin, end),
        cmocka_unit_test_setup_teardown(test_an_ipv6_network_is_one_address, begin, end),
        cmocka_unit_test_setup_teardown(test_answers_are_shared_out_among_addresses, begin, end),
        cmocka_unit_test_setup_teardown(test_refusals_are_bounded_too, begin, end),
        cmocka_unit_test_setup_teardown(test_every_connection_has_an_end, begin, end),
        cmocka_unit_test_setup_teardown(test_addresses_are_forgotten, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
