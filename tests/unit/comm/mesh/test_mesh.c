/* Messages between ranks in good health: order, matching, credit, offers, opening and leaving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/mesh/local.h"
#include "lib/comm/mesh_harness.h"

static void fill(uint8_t *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 31 + i / 255 + seed);
}

static void send_now(struct mesh *mesh, unsigned to, uint64_t tag, const void *data, size_t size)
{
    struct mesh_request *request;
    assert_int_equal(mesh_send(mesh, to, tag, data, size, &request), 0);
    assert_int_equal(mesh_wait(request, UINT64_MAX), 0);
}

static void receive_equal(struct mesh *mesh, unsigned from, uint64_t tag, const void *expected,
                          size_t size)
{
    struct mesh_request *request;
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    assert_int_equal(mesh_receive(mesh, from, tag, data, size, &request), 0);
    assert_int_equal(mesh_wait(request, UINT64_MAX), 0);
    assert_memory_equal(data, expected, size);
    free(data);
}

static void test_sizes_around_the_segment_arrive_whole(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 2);
    world_open(&world);
    static const size_t sizes[] = {0,
                                   1,
                                   39,
                                   40,
                                   16383,
                                   16384,
                                   16385,
                                   FRAME_SEGMENT_MAX - 1,
                                   FRAME_SEGMENT_MAX,
                                   FRAME_SEGMENT_MAX + 1,
                                   5 * FRAME_SEGMENT_MAX + 12345};
    uint8_t *data = malloc(6 * FRAME_SEGMENT_MAX);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        fill(data, sizes[i], (unsigned)i);
        for (unsigned from = 0; from < 2; from++) { /* both directions, received late */
            send_now(world.meshes[from], 1 - from, i, data, sizes[i]);
            receive_equal(world.meshes[1 - from], from, i, data, sizes[i]);
        }
        /* posted before the message comes: received directly into the buffer */
        struct mesh_request *receive;
        uint8_t *posted = malloc(sizes[i] + 1);
        assert_int_equal(mesh_receive(world.meshes[1], 0, 1000 + i, posted, sizes[i], &receive), 0);
        assert_false(mesh_test(receive));
        send_now(world.meshes[0], 1, 1000 + i, data, sizes[i]);
        assert_int_equal(mesh_wait(receive, UINT64_MAX), 0);
        assert_memory_equal(posted, data, sizes[i]);
        free(posted);
    }
    free(data);
    world_close(&world);
    world_done(&world);
}

static void test_tags_are_matched_each_in_order(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 2);
    world_open(&world);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(mesh_send(world.meshes[0], 1, i % 3, &i, sizeof(i), NULL), 0);
    for (uint32_t tag = 3; tag-- > 0;) /* the last tag first */
        for (uint32_t i = tag; i < 300; i += 3)
            receive_equal(world.meshes[1], 0, tag, &i, sizeof(i));
    world_close(&world);
    world_done(&world);
}

/* With little credit, most messages are only offered; they still arrive in order, in any order of
 * receives. */
static void test_messages_beyond_the_credit_wait_at_the_sender(void **state)
{
    (void)state;
    enum { COUNT = 40, SIZE = 100000 };
    struct world world;
    world_init(&world, 2);
    world.unexpected_max_bytes = 3 * SIZE;
    world_open(&world);
    struct mesh_request *sends[COUNT];
    uint8_t *data = malloc(COUNT * SIZE);
    for (unsigned i = 0; i < COUNT; i++) {
        fill(data + i * SIZE, SIZE, i);
        assert_int_equal(mesh_send(world.meshes[0], 1, i % 2, data + i * SIZE, SIZE, &sends[i]), 0);
    }
    /* earlier messages do not hold up a small message */
    uint32_t word = 77;
    send_now(world.meshes[0], 1, 99, &word, sizeof(word));
    receive_equal(world.meshes[1], 0, 99, &word, sizeof(word));
    assert_false(mesh_test(sends[COUNT - 1])); /* not received yet: cannot have been sent */
    for (unsigned tag = 2; tag-- > 0;)
        for (unsigned i = tag; i < COUNT; i += 2)
            receive_equal(world.meshes[1], 0, tag, data + i * SIZE, SIZE);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(mesh_wait(sends[i], UINT64_MAX), 0);
    free(data);
    world_close(&world);
    world_done(&world);
}

/* A peer's own share is neither more nor less because others have none. */
static void test_a_peer_may_have_a_share_of_its_own(void **state)
{
    (void)state;
    enum { SIZE = 100000 };
    struct world world;
    world_init(&world, 3);
    world.unexpected_max_bytes = 1;
    world.shares[1] = 2 * SIZE;
    world_open(&world);
    struct mesh_request *sends[4];
    uint8_t *data = malloc(SIZE);
    fill(data, SIZE, 1);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned from = 1; from <= 2; from++)
            assert_int_equal(
                mesh_send(world.meshes[from], 0, i, data, SIZE, &sends[2 * i + from - 1]), 0);
    assert_int_equal(mesh_wait(sends[0], UINT64_MAX), 0); /* the first of rank 1 waits at rank 0 */
    assert_false(mesh_test(sends[1]));
    assert_false(mesh_test(sends[2])); /* with the overhead per message, one too many */
    assert_false(mesh_test(sends[3]));
    for (unsigned i = 0; i < 2; i++)
        for (unsigned from = 1; from <= 2; from++)
            receive_equal(world.meshes[0], from, i, data, SIZE);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(mesh_wait(sends[i], UINT64_MAX), 0);
    free(data);
    world_close(&world);
    world_done(&world);
}

/* More offers than the peer keeps: the rest is not even offered until some are taken. */
static void test_offers_are_bounded(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct world world;
    world_init(&world, 2);
    world.unexpected_max_bytes = 1; /* no credit at all */
    world_open(&world);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(mesh_send(world.meshes[0], 1, 5, &i, sizeof(i), NULL), 0);
    for (uint32_t i = 0; i < COUNT; i++)
        receive_equal(world.meshes[1], 0, 5, &i, sizeof(i));
    world_close(&world);
    world_done(&world);
}

/* More bulk messages than may be under way at a time, and all the credit in the world. */
static void test_bulk_waits_for_its_receives_and_holds_nothing_up(void **state)
{
    (void)state;
    enum { COUNT = 100, SIZE = 50000 };
    struct world world;
    world_init(&world, 2);
    world_open(&world);
    struct mesh_request *sends[COUNT];
    uint8_t *data = malloc(COUNT * SIZE);
    for (unsigned i = 0; i < COUNT; i++) {
        fill(data + i * SIZE, SIZE, i);
        assert_int_equal(
            mesh_send_bulk(world.meshes[0], 1, i % 2, data + i * SIZE, SIZE, &sends[i]), 0);
    }
    for (uint32_t word = 0; word < 3; word++)
        send_now(world.meshes[0], 1, 99, &word, sizeof(word));
    for (uint32_t word = 0; word < 3; word++)
        receive_equal(world.meshes[1], 0, 99, &word, sizeof(word));
    for (unsigned i = 0; i < COUNT; i++)
        assert_false(mesh_test(sends[i])); /* no receive is posted for it */
    for (unsigned i = 0; i < COUNT; i++)
        receive_equal(world.meshes[1], 0, i % 2, data + i * SIZE, SIZE);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(mesh_wait(sends[i], UINT64_MAX), 0);
    free(data);
    world_close(&world);
    world_done(&world);
}

static void test_a_message_of_unknown_size_is_handed_over(void **state)
{
    (void)state;
    for (unsigned credit = 0; credit < 2; credit++) {
        struct world world;
        world_init(&world, 2);
        world.unexpected_max_bytes = credit ? 0 : 1; /* here already, or only offered */
        world_open(&world);
        void *data;
        size_t size;
        uint64_t soon = clock_monotonic_ns() + NS_PER_MS;
        assert_int_equal(mesh_receive_any(world.meshes[1], 0, 4, soon, &data, &size), -ETIMEDOUT);
        assert_int_equal(mesh_send(world.meshes[0], 1, 4, "hello", 6, NULL), 0);
        assert_int_equal(mesh_send(world.meshes[0], 1, 4, "", 0, NULL), 0);
        assert_int_equal(mesh_receive_any(world.meshes[1], 0, 4, UINT64_MAX, &data, &size), 0);
        assert_int_equal(size, 6);
        assert_string_equal(data, "hello");
        free(data);
        assert_int_equal(mesh_receive_any(world.meshes[1], 0, 4, UINT64_MAX, &data, &size), 0);
        assert_int_equal(size, 0);
        free(data);
        struct mesh_fault fault;
        mesh_fault(world.meshes[1], &fault);
        assert_false(fault.failed);
        world_close(&world);
        world_done(&world);
    }
}

static void test_what_was_posted_before_closing_arrives(void **state)
{
    (void)state;
    enum { COUNT = 500, SIZE = 5000 };
    struct world world;
    world_init(&world, 2);
    world_open(&world);
    uint8_t data[SIZE];
    for (unsigned i = 0; i < COUNT; i++) {
        fill(data, SIZE, i);
        assert_int_equal(mesh_send(world.meshes[0], 1, i, data, SIZE, NULL), 0);
    }
    mesh_close(world.meshes[0]);
    for (unsigned i = 0; i < COUNT; i++) {
        fill(data, SIZE, i);
        receive_equal(world.meshes[1], 0, i, data, SIZE);
    }
    /* the peer has left, which is no fault; messages sent to it now are dropped */
    assert_int_equal(mesh_send(world.meshes[1], 0, 1, data, SIZE, NULL), 0);
    struct mesh_fault fault;
    mesh_fault(world.meshes[1], &fault);
    assert_false(fault.failed);
    mesh_close(world.meshes[1]);
    world_done(&world);
}

static void test_generations_follow_each_other_on_one_listener(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 4);
    for (unsigned i = 0; i < 20; i++) {
        world.generation++;
        world_open(&world);
        for (unsigned rank = 0; rank < 4; rank++)
            assert_int_equal(mesh_send(world.meshes[rank], (rank + 1) % 4, 1, &i, sizeof(i), NULL),
                             0);
        for (unsigned rank = 0; rank < 4; rank++)
            receive_equal(world.meshes[rank], (rank + 3) % 4, 1, &i, sizeof(i));
        world_close(&world);
    }
    world_done(&world);
}

/* Rank 1 goes ahead to the next generation while rank 0 still has a mesh of this one. */
static void test_a_newer_connector_waits_in_the_backlog(void **state)
{
    (void)state;
    struct world world, pair;
    world_init(&world, 3);
    pair = world;
    pair.count = 2;
    /* rank 0 and 2 are in generation 7, rank 1 already in 8 */
    struct world now = world;
    memcpy(now.addresses[1], world.addresses[2], ADDRESS_SIZE);
    now.listeners[1] = world.listeners[2];
    now.count = 2;
    world_open(&now);
    pair.generation = 8;
    struct opener ahead, behind;
    world_opener_start(&ahead, &pair, 1);
    uint32_t word = 3;
    send_now(now.meshes[0], 1, 1, &word, sizeof(word)); /* generation 7 is not disturbed */
    receive_equal(now.meshes[1], 0, 1, &word, sizeof(word));
    world_close(&now);
    world_opener_start(&behind, &pair, 0);
    assert_int_equal(world_opener_join(&ahead), 0);
    assert_int_equal(world_opener_join(&behind), 0);
    pair.meshes[0] = behind.mesh;
    pair.meshes[1] = ahead.mesh;
    world_close(&pair);
    world_done(&world);
}

/* Half-open entries in the backlog, as left by a connector that gave up, are harmless. */
static void test_stale_connections_in_the_backlog_are_harmless(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 2);
    for (unsigned i = 0; i < 200; i++) {
        struct handshake_identity identity = {.job = "exact", .generation = 7, .rank = 1};
        struct handshake handshake;
        struct handshake_reply hello;
        const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE] = {(uint8_t)i};
        handshake_connect(&handshake, &identity, 0, challenge, &hello);
        int descriptor = raw_connect(world.addresses[0]);
        raw_put(descriptor, hello.frame, hello.payload);
        close(descriptor);
    }
    world_open(&world);
    world_close(&world);
    world_done(&world);
}

static void test_opening_ends_at_its_deadline_and_names_who_is_missing(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 3);
    world.open_ns = 300 * NS_PER_MS;
    struct opener openers[2];
    for (unsigned i = 0; i < 2; i++)
        world_opener_start(&openers[i], &world, i); /* rank 2 never comes */
    for (unsigned i = 0; i < 2; i++) {
        int status = world_opener_join(&openers[i]);
        assert_true(status == -ETIMEDOUT || status == -ECONNRESET); /* or got the fault */
        assert_non_null(strstr(openers[i].error.text, "c/0 (rank 2)"));
        assert_null(strstr(openers[i].error.text, "b/0 (rank 1) does not"));
    }
    world_done(&world);
}

/* An address that drops every attempt, as a cut cable does: a listener with a full backlog. */
struct black_hole {
    int listener, fillers[8];
};

static void black_hole_init(struct black_hole *hole, char ret_address[ADDRESS_SIZE])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    hole->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(hole->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(hole->listener, 0), 0);
    assert_int_equal(getsockname(hole->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(ret_address, ADDRESS_SIZE, "127.0.0.1:%u", ntohs(address.sin_port));
    for (unsigned i = 0; i < 8; i++) {
        hole->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int status = connect(hole->fillers[i], (struct sockaddr *)&address, size);
        assert_true(status == 0 || errno == EINPROGRESS);
    }
}

static void black_hole_done(struct black_hole *hole)
{
    for (unsigned i = 0; i < 8; i++)
        close(hole->fillers[i]);
    close(hole->listener);
}

/* Silent hosts are named long before the deadline; a host that answers, even with a refusal, is
 * not. */
static void test_a_host_that_gives_no_sign_of_life_is_named_soon(void **state)
{
    (void)state;
    struct world world;
    struct black_hole hole;
    world_init(&world, 4);
    world.failure_timeout_ns = 50 * NS_PER_MS;
    mesh_listener_close(&world.listeners[0]); /* refuses: its worker is not there yet */
    black_hole_init(&hole, world.addresses[1]);
    struct opener openers[2]; /* of ranks 2 and 3 */
    for (unsigned i = 0; i < 2; i++)
        world_opener_start(&openers[i], &world, 2 + i);
    for (unsigned i = 0; i < 2; i++) {
        int status = world_opener_join(&openers[i]);
        assert_true(status == -ETIMEDOUT || status == -ECONNRESET); /* or got the fault */
        assert_int_equal(openers[i].unreached.count, 1);
        assert_int_equal(openers[i].unreached.ranks[0], 1);
    }
    black_hole_done(&hole);
    world_done(&world);
}

/* Return when a mesh whose peer never comes has given up: a clock that needs no sleep. */
static void let_time_pass(uint64_t duration_ns)
{
    struct world world;
    struct opener lone;
    world_init(&world, 2);
    world.open_ns = duration_ns;
    world_opener_start(&lone, &world, 0);
    assert_int_equal(world_opener_join(&lone), -ETIMEDOUT);
    world_done(&world);
}

/* The peer's TCP listener lets nobody in. */
static void test_workers_of_one_node_need_no_tcp(void **state)
{
    (void)state;
    struct world world;
    struct black_hole hole;
    bool before = world_same_node;
    world_same_node = true;
    world_init(&world, 2);
    close(world.listeners[0].local);
    black_hole_init(&hole, world.addresses[0]);
    assert_int_equal(local_listen(world.addresses[0], &world.listeners[0].local), 0);
    world_open(&world);
    uint32_t word = 5;
    send_now(world.meshes[1], 0, 1, &word, sizeof(word));
    receive_equal(world.meshes[0], 1, 1, &word, sizeof(word));
    world_close(&world);
    world_done(&world);
    black_hole_done(&hole);
    world_same_node = before;
}

/* Ranks 1 and 3 still compute the step of the generation before, longer than links may take. */
static void test_those_who_join_later_are_waited_for(void **state)
{
    (void)state;
    struct world world;
    struct opener openers[4];
    world_init(&world, 4);
    world.open_ns = 100 * NS_PER_MS;
    world.late[1] = world.late[3] = true;
    world_opener_start(&openers[0], &world, 0);
    world_opener_start(&openers[2], &world, 2);
    let_time_pass(3 * world.open_ns);
    world.open_ns = WORLD_OPEN_NS;
    world_opener_start(&openers[1], &world, 1);
    world_opener_start(&openers[3], &world, 3);
    for (unsigned i = 0; i < 4; i++) {
        if (world_opener_join(&openers[i]) < 0)
            fail_msg("rank %u: %s", i, openers[i].error.text);
        world.meshes[i] = openers[i].mesh;
    }
    world_close(&world);
    world_done(&world);
}

/* Ranks 0 and 2 have no limit until ranks 1 and 3 have joined; then they miss one of their own. */
static void test_two_newcomers_that_lost_each_other_are_missed(void **state)
{
    (void)state;
    struct world world;
    struct opener openers[4];
    world_init(&world, 4);
    world.open_ns = 200 * NS_PER_MS;
    world.late[1] = world.late[3] = true;
    world_opener_start(&openers[0], &world, 0); /* rank 2 never comes */
    let_time_pass(2 * world.open_ns);
    world_opener_start(&openers[1], &world, 1);
    world_opener_start(&openers[3], &world, 3);
    for (unsigned i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        int status = world_opener_join(&openers[i]);
        assert_true(status == -ETIMEDOUT || status == -ECONNRESET); /* or got the fault */
        if (status == -ETIMEDOUT)
            assert_non_null(strstr(openers[i].error.text, "(rank 2)"));
    }
    world_done(&world);
}

/* Rank 1 reads its state for as long as it takes. */
static void test_without_a_timeout_a_late_peer_is_awaited(void **state)
{
    (void)state;
    struct world world;
    struct opener openers[2];
    world_init(&world, 2);
    world.open_ns = MESH_NO_TIMEOUT;
    world_opener_start(&openers[0], &world, 0);
    let_time_pass(300 * NS_PER_MS);
    world_opener_start(&openers[1], &world, 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(world_opener_join(&openers[i]), 0);
        world.meshes[i] = openers[i].mesh;
    }
    world_close(&world);
    world_done(&world);
}

static void test_opening_can_be_cancelled(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 2);
    world.open_ns = MESH_NO_TIMEOUT;
    struct opener opener;
    int cancel = eventfd(0, EFD_CLOEXEC);
    uint64_t one = 1;
    memset(&opener, 0, sizeof(opener));
    opener.world = &world;
    opener.cancel = cancel;
    assert_int_equal(pthread_create(&opener.thread, NULL, world_opener_run, &opener), 0);
    assert_int_equal(write(cancel, &one, sizeof(one)), sizeof(one));
    assert_int_equal(world_opener_join(&opener), -ECANCELED);
    close(cancel);
    world_done(&world);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    struct world world;
    struct mesh_peer peers[WORLD_MAX];
    struct mesh *mesh;
    struct error error = {0};
    world_init(&world, 3);
    struct mesh_options options = world_options(&world, 0, peers);
    peers[1].rank = peers[0].rank;
    assert_int_equal(mesh_open(&options, -1, &mesh, &error), -EINVAL);
    peers[1].rank = 0;
    assert_int_equal(mesh_open(&options, -1, &mesh, &error), -EINVAL);
    options = world_options(&world, 0, peers);
    snprintf(peers[1].address, ADDRESS_SIZE, "localhost");
    assert_int_equal(mesh_open(&options, -1, &mesh, &error), -EINVAL);
    assert_non_null(strstr(error.text, "localhost"));
    struct mesh_listener listener;
    static const char *const wrong[] = {"",        ":",           "127.0.0.1", ":80",
                                        "[::1:80", "127.0.0.1:x", "a:1"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        assert_int_equal(mesh_listen(wrong[i], &listener, &error), -EINVAL);
    assert_int_equal(mesh_listen(world.addresses[0], &listener, &error), -EADDRINUSE);
    world_done(&world);
}

static void test_posting_is_checked(void **state)
{
    (void)state;
    struct world world;
    struct mesh_request *request;
    uint8_t byte = 0;
    void *big = malloc(2 << 20);
    world_init(&world, 2);
    world_open(&world);
    assert_int_equal(mesh_send(world.meshes[0], 0, 1, &byte, 1, &request), -EINVAL);
    assert_int_equal(mesh_send(world.meshes[0], 5, 1, &byte, 1, NULL), -EINVAL);
    assert_int_equal(mesh_receive(world.meshes[0], 5, 1, &byte, 1, &request), -EINVAL);
    assert_int_equal(mesh_send(world.meshes[0], 1, 1, big, MESH_MESSAGE_MAX + 1, &request),
                     -EINVAL);
    assert_int_equal(mesh_send(world.meshes[0], 1, 1, big, 2 << 20, NULL), -EMSGSIZE);
    free(big);
    world_close(&world);
    world_done(&world);
}

static void test_a_mesh_of_one_opens_and_closes(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    world_open(&world);
    world_close(&world);
    world_done(&world);
}

static void test_bytes_and_messages_are_counted(void **state)
{
    (void)state;
    struct world world;
    struct mesh_statistics statistics;
    uint8_t data[1000] = {0};
    world_init(&world, 2);
    world_open(&world);
    for (unsigned i = 0; i < 10; i++)
        send_now(world.meshes[0], 1, i, data, sizeof(data));
    for (unsigned i = 0; i < 10; i++)
        receive_equal(world.meshes[1], 0, i, data, sizeof(data));
    mesh_statistics(world.meshes[0], &statistics);
    assert_int_equal(statistics.messages_sent, 10);
    assert_true(statistics.bytes_sent >=
                9 * sizeof(data)); /* the last round may still be counting */
    mesh_statistics(world.meshes[1], &statistics);
    assert_int_equal(statistics.messages_received, 10);
    world_close(&world);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_around_the_segment_arrive_whole),
        cmocka_unit_test(test_tags_are_matched_each_in_order),
        cmocka_unit_test(test_messages_beyond_the_credit_wait_at_the_sender),
        cmocka_unit_test(test_a_peer_may_have_a_share_of_its_own),
        cmocka_unit_test(test_offers_are_bounded),
        cmocka_unit_test(test_bulk_waits_for_its_receives_and_holds_nothing_up),
        cmocka_unit_test(test_a_message_of_unknown_size_is_handed_over),
        cmocka_unit_test(test_what_was_posted_before_closing_arrives),
        cmocka_unit_test(test_generations_follow_each_other_on_one_listener),
        cmocka_unit_test(test_a_newer_connector_waits_in_the_backlog),
        cmocka_unit_test(test_stale_connections_in_the_backlog_are_harmless),
        cmocka_unit_test(test_opening_ends_at_its_deadline_and_names_who_is_missing),
        cmocka_unit_test(test_a_host_that_gives_no_sign_of_life_is_named_soon),
        cmocka_unit_test(test_workers_of_one_node_need_no_tcp),
        cmocka_unit_test(test_those_who_join_later_are_waited_for),
        cmocka_unit_test(test_two_newcomers_that_lost_each_other_are_missed),
        cmocka_unit_test(test_without_a_timeout_a_late_peer_is_awaited),
        cmocka_unit_test(test_opening_can_be_cancelled),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_posting_is_checked),
        cmocka_unit_test(test_a_mesh_of_one_opens_and_closes),
        cmocka_unit_test(test_bytes_and_messages_are_counted),
    };
    int failed = cmocka_run_group_tests_name("by TCP", tests, NULL, NULL);
    world_same_node = true;
    return failed + cmocka_run_group_tests_name("within one node", tests, NULL, NULL);
}
