/* A mesh accepts only connections from addresses of its peers, which bind their own addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/comm/mesh_harness.h"

#include "base/log.h"
#include "comm/mesh/tcp.h"

#define KNOCKS 8

static struct {
    unsigned count;
    char first[256];
} warnings;

static void take_warning(enum log_level level, const char *message, const struct log_field *fields,
                         size_t field_count, void *context)
{
    (void)fields;
    (void)field_count;
    (void)context;
    if (level == LOG_LEVEL_WARNING && warnings.count++ == 0)
        snprintf(warnings.first, sizeof(warnings.first), "%s", message);
}

static void finish(struct world *world, struct mesh *mesh, int raw)
{
    mesh_abort(mesh, "end");
    shutdown(raw, SHUT_WR);
    mesh_close(mesh);
    close(raw);
    world_done(world);
}

/* A stranger's address is refused even with the right key; refusals are counted, and the log has
 * two lines about all of them. */
static void test_an_address_that_no_peer_has_is_turned_away(void **state)
{
    (void)state;
    struct world world;
    struct opener opener;
    struct mesh_statistics statistics;
    uint8_t byte;
    int raw;
    memset(&warnings, 0, sizeof(warnings));
    log_set_sink(take_warning, NULL);
    world_init(&world, 2);
    world_opener_start(&opener, &world, 0);
    for (unsigned i = 0; i < KNOCKS; i++) {
        raw = raw_connect_from("127.0.0.9", world.addresses[0]);
        assert_false(raw_read(raw, &byte, 1)); /* closed, without a byte on either side */
        close(raw);
    }
    int from_elsewhere = raw_join_from("127.0.0.9", &world, 1, 0, &raw);
    if (from_elsewhere < 0)
        assert_int_equal(raw_join(&world, 1, 0, &raw), 0);
    assert_int_equal(world_opener_join(&opener), 0);
    mesh_statistics(opener.mesh, &statistics);
    finish(&world, opener.mesh, raw);
    log_set_sink(NULL, NULL);
    assert_int_equal(from_elsewhere, -ESHUTDOWN);
    assert_int_equal(statistics.turned_away, KNOCKS + 1);
    assert_int_equal(warnings.count, 2);
    assert_non_null(strstr(warnings.first, "closed 1 connection(s)"));
    assert_non_null(strstr(warnings.first, "the newest from 127.0.0.9: "));
}

static void test_a_translated_address_gets_in_where_that_is_set(void **state)
{
    (void)state;
    struct world world, wrong;
    struct opener opener;
    int raw;
    world_init(&world, 2);
    world.any_address = true;
    world_opener_start(&opener, &world, 0);
    wrong = world;
    wrong.key[5] ^= 1;
    assert_int_equal(raw_join_from("127.0.0.9", &wrong, 1, 0, &raw), -EBUSY);
    assert_int_equal(raw_join_from("127.0.0.9", &world, 1, 0, &raw), 0);
    assert_int_equal(world_opener_join(&opener), 0);
    finish(&world, opener.mesh, raw);
}

static void listen_at(struct world *world, unsigned rank, const char *address)
{
    struct error error = {0};
    mesh_listener_close(&world->listeners[rank]);
    if (mesh_listen(address, &world->listeners[rank], &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(mesh_listener_address(&world->listeners[rank], world->addresses[rank]), 0);
}

/* On this machine the kernel would let rank 1 connect from 127.0.0.1, which is rank 0's alone. */
static void test_a_node_with_several_addresses_connects_from_the_one_in_the_plan(void **state)
{
    (void)state;
    static const char *const listens[][2] = {
        {"127.0.0.1:0", "127.0.0.7:0"},
        {"[::ffff:127.0.0.1]:0", "127.0.0.7:0"}, /* one address, written in two ways */
        {"127.0.0.1:0", "[::ffff:127.0.0.7]:0"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(listens); i++) {
        struct world world;
        struct mesh_statistics statistics;
        world_init(&world, 2);
        world.open_ns = 5 * NS_PER_SECOND;
        listen_at(&world, 0, listens[i][0]);
        listen_at(&world, 1, listens[i][1]);
        world_open(&world);
        mesh_statistics(world.meshes[0], &statistics);
        assert_int_equal(statistics.turned_away, 0);
        world_close(&world);
        world_done(&world);
    }
}

static void test_an_address_is_one_however_it_is_written(void **state)
{
    (void)state;
    static const struct {
        const char *address, *text;
    } cases[] = {
        {"10.1.2.3:7600", "10.1.2.3"},
        {"[::ffff:10.1.2.3]:7601", "10.1.2.3"},
        {"[fd00:0::1]:7600", "fd00::1"},
        {"[FD00::0001]:1", "fd00::1"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[TCP_HOST_TEXT_SIZE];
        struct tcp_host host = tcp_host_of(cases[i].address);
        tcp_host_text(&host, text);
        assert_string_equal(text, cases[i].text);
    }
    struct tcp_host four = tcp_host_of(cases[0].address), mapped = tcp_host_of(cases[1].address);
    struct tcp_host six = tcp_host_of(cases[2].address);
    assert_true(tcp_host_equal(&four, &mapped));
    assert_false(tcp_host_equal(&four, &six));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_that_no_peer_has_is_turned_away),
        cmocka_unit_test(test_a_translated_address_gets_in_where_that_is_set),
        cmocka_unit_test(test_a_node_with_several_addresses_connects_from_the_one_in_the_plan),
        cmocka_unit_test(test_an_address_is_one_however_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
