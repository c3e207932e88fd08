/*
 * Tests of every way in which a link can fail. Rank 0 is a real mesh; the misbehaving peers are
 * plain sockets after a handshake. The tests wait for detection and do not time it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lib/comm/mesh_harness.h"

#include "comm/mesh/tcp.h"

#define SHORT_TIMEOUT_NS (400 * NS_PER_MS)

/* Rank 0's mesh and a raw rank 1 on the other end of its link. */
struct pair {
    struct world world;
    struct mesh *mesh;
    int raw;
};

static void pair_open(struct pair *pair, uint64_t failure_timeout_ns)
{
    struct opener opener;
    world_init(&pair->world, 2);
    pair->world.failure_timeout_ns = failure_timeout_ns;
    world_opener_start(&opener, &pair->world, 0);
    assert_int_equal(raw_join(&pair->world, 1, 0, &pair->raw), 0);
    assert_int_equal(world_opener_join(&opener), 0);
    pair->mesh = opener.mesh;
}

static void pair_done(struct pair *pair)
{
    shutdown(pair->raw, SHUT_WR); /* end of its data, so the farewell is over soon */
    mesh_close(pair->mesh);
    close(pair->raw);
    world_done(&pair->world);
}

/* The posted receive ends with -ECONNRESET, and so does every later operation. */
static void expect_fault(struct pair *pair, const char *text, bool lost)
{
    struct mesh_request *request;
    struct mesh_fault fault;
    uint8_t data[64];
    int status = mesh_receive(pair->mesh, 1, 1234, data, sizeof(data), &request);
    if (status == 0)
        status = mesh_wait(request, UINT64_MAX);
    assert_int_equal(status, -ECONNRESET);
    assert_int_equal(mesh_receive(pair->mesh, 1, 1, data, 1, &request), -ECONNRESET);
    assert_int_equal(mesh_send(pair->mesh, 1, 1, data, 1, &request), -ECONNRESET);
    void *any;
    size_t size;
    assert_int_equal(mesh_receive_any(pair->mesh, 1, 1, UINT64_MAX, &any, &size), -ECONNRESET);
    mesh_fault(pair->mesh, &fault);
    assert_true(fault.failed);
    if (!strstr(fault.text, text))
        fail_msg("'%s' does not say '%s'", fault.text, text);
    assert_int_equal(fault.lost_count, lost);
    if (lost)
        assert_int_equal(fault.lost_ranks[0], 1);
}

static struct frame frame_of(const struct pair *pair, enum frame_type type)
{
    return (struct frame){.type = type, .source = 1, .generation = pair->world.generation};
}

static void test_a_peer_that_closes_is_lost(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, WORLD_SILENT_NS);
    shutdown(pair.raw, SHUT_RDWR);
    expect_fault(&pair, "b/0 (rank 1) closed the link", true);
    pair_done(&pair);
}

static void test_a_peer_that_resets_in_the_middle_of_a_message_is_lost(void **state)
{
    (void)state;
    struct pair pair;
    struct mesh_request *request;
    const size_t size = 3 * FRAME_SEGMENT_MAX;
    uint8_t *buffer = calloc(1, size), *sent = calloc(1, FRAME_SEGMENT_MAX);
    pair_open(&pair, WORLD_SILENT_NS);
    assert_int_equal(mesh_receive(pair.mesh, 1, 5, buffer, size, &request), 0);
    struct frame frame = frame_of(&pair, FRAME_DATA);
    frame.tag = 5;
    frame.size = size;
    frame.length = FRAME_SEGMENT_MAX;
    raw_put(pair.raw, frame, sent);
    free(sent);
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(pair.raw, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(pair.raw);
    pair.raw = raw_connect(pair.world.addresses[0]); /* a descriptor for pair_done() */
    assert_int_equal(mesh_wait(request, UINT64_MAX), -ECONNRESET);
    free(buffer); /* ASan reports any later write */
    expect_fault(&pair, "closed the link while 1 receives", true);
    pair_done(&pair);
}

static void test_a_silent_peer_is_lost(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, SHORT_TIMEOUT_NS);
    expect_fault(&pair, "b/0 (rank 1) was silent for 0.4 s", true); /* sends and reads nothing */
    pair_done(&pair);
}

/* It is alive by its heartbeats, and by nothing else, for several timeouts. */
static void test_a_peer_with_heartbeats_is_not_lost(void **state)
{
    (void)state;
    struct pair pair;
    struct frame frame;
    uint8_t payload[FRAME_SMALL_MAX + 1];
    pair_open(&pair, SHORT_TIMEOUT_NS);
    for (unsigned beats = 0; beats < 12;) { /* 3 timeouts */
        assert_true(raw_get(pair.raw, &frame, payload));
        if (frame.type != FRAME_HEARTBEAT)
            continue;
        raw_put(pair.raw, frame_of(&pair, FRAME_HEARTBEAT), NULL);
        beats++;
    }
    struct mesh_fault fault;
    mesh_fault(pair.mesh, &fault);
    assert_false(fault.failed);
    mesh_abort(pair.mesh, "enough");
    assert_true(raw_get_news(pair.raw, &frame, payload));
    assert_int_equal(frame.type, FRAME_FAULT);
    assert_string_equal((char *)payload, "enough");
    expect_fault(&pair, "enough", false);
    pair_done(&pair);
}

static void *beat(void *context)
{
    struct pair *pair = context;
    const struct timespec pause = {.tv_nsec = (long)(SHORT_TIMEOUT_NS / 8)};
    while (raw_try_put(pair->raw, frame_of(pair, FRAME_HEARTBEAT), NULL))
        nanosleep(&pause, NULL);
    return NULL;
}

/* The peer sends heartbeats but reads nothing: the kernel's timeout for unacknowledged data ends
 * it. */
static void test_a_peer_that_stops_reading_is_lost(void **state)
{
    (void)state;
    enum { SIZE = 32 << 20 };
    struct pair pair;
    struct mesh_request *request;
    pthread_t thread;
    uint8_t *data = calloc(1, SIZE);
    pair_open(&pair, SHORT_TIMEOUT_NS);
    struct frame accept = frame_of(&pair, FRAME_ACCEPT), frame;
    uint8_t payload[FRAME_SMALL_MAX + 1];
    assert_int_equal(mesh_send(pair.mesh, 1, 1, data, SIZE, &request), 0);
    assert_true(raw_get_news(pair.raw, &frame, payload)); /* no credit was given */
    assert_int_equal(frame.type, FRAME_OFFER);
    raw_put(pair.raw, accept, NULL);
    assert_int_equal(pthread_create(&thread, NULL, beat, &pair), 0);
    assert_int_equal(mesh_wait(request, UINT64_MAX), -ECONNRESET);
    free(data);
    expect_fault(&pair, "b/0 (rank 1) acknowledges nothing any more", true);
    pthread_join(thread, NULL);
    pair_done(&pair);
}

static void test_a_fault_is_passed_on_along_a_chain(void **state)
{
    (void)state;
    struct world world;
    struct opener openers[2];
    int raw;
    world_init(&world, 3);
    world.chain = true; /* 0 - 1 - 2, and 2 is the raw one */
    for (unsigned i = 0; i < 2; i++)
        world_opener_start(&openers[i], &world, i);
    assert_int_equal(raw_join(&world, 2, 1, &raw), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(world_opener_join(&openers[i]), 0);
    struct mesh_request *request;
    uint8_t byte;
    assert_int_equal(mesh_receive(openers[0].mesh, 1, 1, &byte, 1, &request), 0);
    close(raw);
    assert_int_equal(mesh_wait(request, UINT64_MAX), -ECONNRESET);
    struct mesh_fault fault;
    mesh_fault(openers[0].mesh, &fault);
    assert_int_equal(fault.lost_count, 0); /* rank 1 is not to blame */
    assert_non_null(strstr(fault.text, "told by b/0 (rank 1): c/0 (rank 2) closed the link"));
    mesh_fault(openers[1].mesh, &fault);
    assert_int_equal(fault.lost_count, 1);
    assert_int_equal(fault.lost_ranks[0], 2);
    for (unsigned i = 0; i < 2; i++)
        mesh_close(openers[i].mesh);
    world_done(&world);
}

/* In the middle of a large message in both directions a FAULT still gets through, and names no
 * lost rank. */
static void test_a_fault_overtakes_large_messages(void **state)
{
    (void)state;
    enum { SIZE = 64 << 20 };
    struct world world;
    struct mesh_request *requests[2];
    uint8_t *data = calloc(2, SIZE);
    world_init(&world, 2);
    world_open(&world);
    for (unsigned rank = 0; rank < 2; rank++)
        assert_int_equal(mesh_send(world.meshes[rank], 1 - rank, 1, data + rank * (size_t)SIZE,
                                   SIZE, &requests[rank]),
                         0);
    mesh_abort(world.meshes[0], "the device failed");
    int first = mesh_wait(requests[0], UINT64_MAX);
    assert_true(first == -ECONNRESET || first == 0);
    struct mesh_request *never;
    uint8_t byte;
    int status = mesh_receive(world.meshes[1], 0, 99, &byte, 1, &never);
    if (status == 0)
        status = mesh_wait(never, UINT64_MAX);
    assert_int_equal(status, -ECONNRESET);
    int second = mesh_wait(requests[1], UINT64_MAX);
    assert_true(second == -ECONNRESET || second == 0);
    free(data);
    struct mesh_fault fault;
    mesh_fault(world.meshes[1], &fault);
    assert_string_equal(fault.text, "told by a/0 (rank 0): the device failed");
    assert_int_equal(fault.lost_count, 0);
    world_close(&world);
    world_done(&world);
}

static void test_a_wait_that_is_too_long_fails_the_mesh(void **state)
{
    (void)state;
    struct world world;
    struct mesh_request *request;
    uint8_t byte;
    world_init(&world, 2);
    world_open(&world);
    assert_int_equal(mesh_receive(world.meshes[0], 1, 1, &byte, 1, &request), 0);
    assert_int_equal(mesh_wait(request, clock_monotonic_ns() + NS_PER_MS), -ETIMEDOUT);
    struct mesh_fault fault;
    mesh_fault(world.meshes[0], &fault);
    assert_true(fault.failed);
    assert_non_null(strstr(fault.text, "b/0 (rank 1) was waited for"));
    world_close(&world);
    world_done(&world);
}

static void test_another_size_than_expected_fails_the_mesh(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct world world;
        struct mesh_request *request;
        uint32_t words[2] = {1, 2};
        world_init(&world, 2);
        world_open(&world);
        int status = 0;
        if (!late)
            assert_int_equal(mesh_receive(world.meshes[1], 0, 3, words, 8, &request), 0);
        assert_int_equal(mesh_send(world.meshes[0], 1, 3, words, 4, NULL), 0);
        if (late) {
            assert_int_equal(mesh_send(world.meshes[0], 1, 4, words, 4, NULL), 0);
            void *data; /* tag 4 is here, so tag 3 is */
            size_t size;
            assert_int_equal(mesh_receive_any(world.meshes[1], 0, 4, UINT64_MAX, &data, &size), 0);
            free(data);
            status = mesh_receive(world.meshes[1], 0, 3, words, 8, &request);
        }
        if (status == 0)
            status = mesh_wait(request, UINT64_MAX);
        assert_int_equal(status, -EMSGSIZE);
        struct mesh_fault fault;
        mesh_fault(world.meshes[1], &fault);
        assert_true(fault.failed);
        assert_non_null(strstr(fault.text, "sent 4 bytes with tag 0x3 where 8 were expected"));
        world_close(&world);
        world_done(&world);
    }
}

static void test_a_peer_that_leaves_too_early_is_a_fault(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct world world;
        struct mesh_request *request;
        uint8_t byte;
        world_init(&world, 2);
        world_open(&world);
        if (!late)
            assert_int_equal(mesh_receive(world.meshes[0], 1, 1, &byte, 1, &request), 0);
        mesh_close(world.meshes[1]);
        int status = 0;
        if (late)
            status = mesh_receive(world.meshes[0], 1, 1, &byte, 1, &request);
        if (status == 0)
            status = mesh_wait(request, UINT64_MAX);
        assert_int_equal(status, -ECONNRESET);
        struct mesh_fault fault;
        mesh_fault(world.meshes[0], &fault);
        assert_non_null(strstr(fault.text, "b/0 (rank 1) left"));
        mesh_close(world.meshes[0]);
        world_done(&world);
    }
}

/* ---- waiting for an event outside the mesh ---- */

struct word {
    struct mesh *mesh;
    bool given, breaks; /* given: read and written by two threads, atomically */
    unsigned asked;
};

static bool is_given(const void *context)
{
    const struct word *word = context;
    __atomic_fetch_add((unsigned *)&word->asked, 1, __ATOMIC_ACQ_REL);
    return __atomic_load_n(&word->given, __ATOMIC_ACQUIRE);
}

/* Once the mesh waits: wake it without the event, then set the event, or end the mesh. */
static void *give_word(void *context)
{
    struct word *word = context;
    while (__atomic_load_n(&word->asked, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    while (__atomic_load_n(&word->asked, __ATOMIC_ACQUIRE) < 2)
        mesh_ask_again(word->mesh);
    if (word->breaks) {
        mesh_abort(word->mesh, "another plan");
        return NULL;
    }
    __atomic_store_n(&word->given, true, __ATOMIC_RELEASE);
    mesh_ask_again(word->mesh);
    return NULL;
}

static void test_a_word_or_a_fault_ends_a_wait_for_it(void **state)
{
    (void)state;
    for (unsigned breaks = 0; breaks < 2; breaks++) {
        struct pair pair;
        pthread_t giver;
        pair_open(&pair, WORLD_SILENT_NS);
        struct word word = {.mesh = pair.mesh, .breaks = breaks};
        assert_int_equal(pthread_create(&giver, NULL, give_word, &word), 0);
        assert_int_equal(mesh_await(pair.mesh, is_given, &word), breaks);
        pthread_join(giver, NULL);
        assert_true(word.asked >= 2);
        if (!breaks)
            mesh_abort(pair.mesh, "end");
        pair_done(&pair);
    }
}

/* ---- frames that no correct peer sends, after a correct handshake ---- */

static void expect_protocol_fault(struct frame frame, const uint8_t *payload)
{
    struct pair pair;
    pair_open(&pair, WORLD_SILENT_NS);
    raw_put(pair.raw, frame, payload);
    expect_fault(&pair, "b/0 (rank 1) broke the protocol", true);
    pair_done(&pair);
}

static void test_frames_that_are_not_allowed_end_the_link(void **state)
{
    (void)state;
    const uint8_t payload[FRAME_CHALLENGE_SIZE] = {0};
    const struct frame cases[] = {
        {.type = FRAME_HEARTBEAT, .source = 1, .generation = 6}, /* an older generation */
        {.type = FRAME_HEARTBEAT, .source = 1, .generation = 8}, /* a newer one */
        {.type = FRAME_HEARTBEAT, .source = 2, .generation = 7}, /* in another's name */
        {.type = FRAME_TYPE_END, .source = 1, .generation = 7},  /* unknown */
        {.type = FRAME_HEARTBEAT, .source = 1, .generation = 7, .length = 1},
        {.type = FRAME_ACCEPT, .source = 1, .generation = 7, .tag = 0},   /* nothing was offered */
        {.type = FRAME_DELIVERY, .source = 1, .generation = 7, .tag = 0}, /* nothing was accepted */
        {.type = FRAME_PART, .source = 1, .generation = 7, .length = 5},  /* no message is open */
        {.type = FRAME_CREDIT, .source = 1, .generation = 7, .size = MESH_MESSAGE_MAX + 1},
        {.type = FRAME_DATA, .source = 1, .generation = 7, .size = UINT64_MAX, .length = 1 << 20},
        {.type = FRAME_DATA,
         .source = 1,
         .generation = 7,
         .size = MESH_MESSAGE_MAX,
         .length = 1 << 20},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        expect_protocol_fault(cases[i], NULL);
    struct frame again = {
        .type = FRAME_CHALLENGE, .source = 1, .generation = 7, .length = sizeof(payload)};
    expect_protocol_fault(again, payload);
}

/* ---- damaged bytes ---- */

enum damage { FLIP_HEADER, FLIP_HEADER_TAG, FLIP_PAYLOAD, FLIP_PAYLOAD_TAG, DROP, REPEAT, DAMAGES };

/* Put a frame of @payload into the wire and then apply the damage. */
static void put_damaged(struct pair *pair, struct frame frame, const uint8_t *payload,
                        enum damage damage, unsigned bit)
{
    uint8_t wire[FRAME_HEADER_SIZE + FRAME_SMALL_MAX + 2 * FRAME_SEAL_TAG_SIZE];
    struct frame_seal *seal = raw_seals[pair->raw].out;
    uint8_t *at = wire, *places[DAMAGES] = {[FLIP_HEADER] = wire};
    frame_encode(&frame, at);
    at += FRAME_HEADER_SIZE;
    assert_int_equal(frame_seal_make(seal, wire, FRAME_HEADER_SIZE, at), 0);
    places[FLIP_HEADER_TAG] = at;
    at += FRAME_SEAL_TAG_SIZE;
    if (frame.length > 0) {
        places[FLIP_PAYLOAD] = at;
        memcpy(at, payload, frame.length);
        at += frame.length;
        assert_int_equal(frame_seal_make(seal, at - frame.length, frame.length, at), 0);
        places[FLIP_PAYLOAD_TAG] = at;
        at += FRAME_SEAL_TAG_SIZE;
    }
    if (damage < DROP)
        places[damage][bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (damage != DROP)
        assert_true(raw_try_write(pair->raw, wire, (size_t)(at - wire)));
    if (damage == REPEAT)
        assert_true(raw_try_write(pair->raw, wire, (size_t)(at - wire)));
}

/* The message that follows is right, so nothing but the damage breaks the link. */
static void expect_damage_breaks(struct frame frame, const uint8_t *payload, enum damage damage,
                                 unsigned bit)
{
    struct pair pair;
    struct mesh_request *request;
    uint8_t received[64];
    const uint8_t sent[64] = {7};
    pair_open(&pair, WORLD_SILENT_NS);
    int posted = mesh_receive(pair.mesh, 1, 5, received, sizeof(received), &request);
    assert_int_equal(posted, 0);
    put_damaged(&pair, frame, payload, damage, bit);
    struct frame after = frame_of(&pair, FRAME_DATA);
    after.tag = 6;
    after.size = after.length = sizeof(sent);
    (void)raw_try_put(pair.raw, after, sent);
    shutdown(pair.raw, SHUT_WR); /* a frame with too long a length waits for missing bytes */
    int status = mesh_wait(request, UINT64_MAX);
    assert_true(mesh_await_fault(pair.mesh, UINT64_MAX));
    if (status == 0 && (damage != REPEAT || memcmp(received, payload, sizeof(received)) != 0))
        fail_msg("damage %d of bit %u in a frame of type %d went unnoticed", damage, bit,
                 frame.type);
    pair_done(&pair);
}

static void test_no_changed_dropped_or_repeated_byte_arrives(void **state)
{
    (void)state;
    uint8_t payload[64];
    for (unsigned i = 0; i < sizeof(payload); i++)
        payload[i] = (uint8_t)(3 * i + 1);
    const struct frame frames[] = {
        {.type = FRAME_DATA,
         .source = 1,
         .generation = 7,
         .tag = 5,
         .size = sizeof(payload),
         .length = sizeof(payload)},
        {.type = FRAME_HEARTBEAT, .source = 1, .generation = 7},
        {.type = FRAME_CREDIT, .source = 1, .generation = 7, .size = 1},
        {.type = FRAME_OFFER, .source = 1, .generation = 7, .tag = 9, .size = 1},
        {.type = FRAME_FAULT, .source = 1, .generation = 7, .length = 64},
        {.type = FRAME_BYE, .source = 1, .generation = 7},
    };
    for (size_t i = 0; i < ARRAY_COUNT(frames); i++)
        for (unsigned damage = 0; damage < DAMAGES; damage++) {
            bool of_payload = damage == FLIP_PAYLOAD || damage == FLIP_PAYLOAD_TAG;
            unsigned bits = damage == FLIP_HEADER    ? 8 * FRAME_HEADER_SIZE
                            : damage == FLIP_PAYLOAD ? 8 * sizeof(payload)
                                                     : 8 * FRAME_SEAL_TAG_SIZE;
            if (of_payload && frames[i].length == 0)
                continue;
            for (unsigned bit = (unsigned)i; bit < bits; bit += damage < DROP ? 29 : bits)
                expect_damage_breaks(frames[i], payload, (enum damage)damage, bit);
        }
}

static void test_nor_does_any_with_checksums(void **state)
{
    world_checksums = true;
    test_no_changed_dropped_or_repeated_byte_arrives(state);
    world_checksums = false;
}

static void test_a_peer_that_overdraws_its_credit_ends_the_link(void **state)
{
    (void)state;
    struct pair pair;
    struct opener opener;
    uint8_t data[600] = {0};
    world_init(&pair.world, 2);
    pair.world.unexpected_max_bytes = 1000;
    world_opener_start(&opener, &pair.world, 0);
    assert_int_equal(raw_join(&pair.world, 1, 0, &pair.raw), 0);
    assert_int_equal(world_opener_join(&opener), 0);
    pair.mesh = opener.mesh;
    struct frame frame = frame_of(&pair, FRAME_DATA);
    frame.tag = 5;
    frame.size = frame.length = sizeof(data);
    raw_put(pair.raw, frame, data);
    raw_put(pair.raw, frame, data);
    expect_fault(&pair, "broke the protocol", true);
    pair_done(&pair);
}

static void test_a_peer_that_offers_without_end_ends_the_link(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, WORLD_SILENT_NS);
    struct frame frame = frame_of(&pair, FRAME_OFFER);
    frame.size = 1;
    for (unsigned i = 0; i < 5000; i++)
        if (!raw_try_put(pair.raw, frame, NULL))
            break;
    expect_fault(&pair, "broke the protocol", true);
    pair_done(&pair);
}

static void test_the_text_of_a_fault_is_made_printable(void **state)
{
    (void)state;
    struct pair pair;
    pair_open(&pair, WORLD_SILENT_NS);
    struct frame frame = frame_of(&pair, FRAME_FAULT);
    frame.length = 9;
    raw_put(pair.raw, frame, "a\n\x1b[31m%s");
    expect_fault(&pair, "told by b/0 (rank 1): a??[31m%s", false);
    pair_done(&pair);
}

/* ---- at the door ---- */

static void test_strangers_are_refused_and_the_right_peer_gets_in(void **state)
{
    (void)state;
    struct pair pair;
    struct opener opener;
    world_init(&pair.world, 2);
    world_opener_start(&opener, &pair.world, 0);

    int raw;
    struct world wrong = pair.world;
    wrong.key[5] ^= 1;
    assert_int_equal(raw_join(&wrong, 1, 0, &raw), -EBUSY);
    wrong = pair.world;
    wrong.generation = 6;
    assert_int_equal(raw_join(&wrong, 1, 0, &raw), -EBUSY);
    wrong.generation = 8;
    assert_int_equal(raw_join(&wrong, 1, 0, &raw), -EBUSY);
    assert_int_equal(raw_join(&pair.world, 9, 0, &raw), -EBUSY); /* not a rank of the plan */

    uint8_t garbage[4096], byte;
    memset(garbage, 'G', sizeof(garbage));
    raw = raw_connect(pair.world.addresses[0]);
    assert_true(send(raw, garbage, sizeof(garbage), MSG_NOSIGNAL) > 0);
    assert_false(raw_read(raw, &byte, 1)); /* closed */
    close(raw);
    raw = raw_connect(pair.world.addresses[0]); /* a message before the handshake */
    struct frame frame = {
        .type = FRAME_DATA, .source = 1, .generation = 7, .size = 1 << 30, .length = 1 << 20};
    raw_put(raw, (struct frame){.type = FRAME_HEARTBEAT, .source = 1, .generation = 7}, NULL);
    assert_false(raw_read(raw, &byte, 1));
    close(raw);
    raw = raw_connect(pair.world.addresses[0]);
    raw_put(raw, frame, NULL);
    assert_false(raw_read(raw, &byte, 1));
    close(raw);

    int half[3]; /* a HELLO that fits is not dropped for others */
    for (size_t i = 0; i < ARRAY_COUNT(half); i++) {
        uint8_t payload[FRAME_SMALL_MAX + 1];
        half[i] = raw_hello(&pair.world, 1, 0);
        assert_true(raw_get(half[i], &frame, payload));
        assert_int_equal(frame.type, FRAME_CHALLENGE);
    }
    int silent[100]; /* they connect and stay silent: the mesh keeps a limited number */
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
        silent[i] = raw_connect(pair.world.addresses[0]);
    assert_false(raw_read(silent[0], &byte, 1)); /* the oldest made room */
    assert_true(raw_is_open(half[2]));
    assert_false(raw_is_open(half[0])); /* a newer attempt of the same rank took its place */
    for (size_t i = 0; i < ARRAY_COUNT(half); i++)
        close(half[i]);
    assert_int_equal(raw_join(&pair.world, 1, 0, &pair.raw), 0);
    assert_int_equal(world_opener_join(&opener), 0);
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++)
        close(silent[i]);
    pair.mesh = opener.mesh;
    struct mesh_fault fault;
    mesh_fault(pair.mesh, &fault);
    assert_false(fault.failed);
    mesh_abort(pair.mesh, "end");
    pair_done(&pair);
}

static void test_a_wrong_key_is_a_missing_permission_at_the_deadline(void **state)
{
    (void)state;
    struct world world, other;
    struct opener openers[2];
    world_init(&world, 2);
    world.open_ns = 300 * NS_PER_MS;
    other = world;
    other.key[31] ^= 0x80;
    world_opener_start(&openers[0], &world, 0);
    world_opener_start(&openers[1], &other, 1);
    assert_int_equal(world_opener_join(&openers[0]), -EPERM);
    assert_int_equal(world_opener_join(&openers[1]), -ETIMEDOUT);
    assert_non_null(strstr(openers[0].error.text, "b/0 (rank 1) has another key"));
    assert_non_null(strstr(openers[1].error.text, "a/0 (rank 0) refuses: "));
    world_done(&world);
}

static void test_a_connector_of_an_older_generation_is_refused(void **state)
{
    (void)state;
    struct world world, older;
    struct opener openers[2];
    world_init(&world, 2);
    older = world;
    older.generation--;
    older.open_ns = 300 * NS_PER_MS;
    world_opener_start(&openers[0], &world, 0);
    world_opener_start(&openers[1], &older, 1);
    assert_int_equal(world_opener_join(&openers[1]), -ETIMEDOUT);
    assert_non_null(strstr(openers[1].error.text, "a/0 (rank 0) refuses: "));
    world_opener_start(&openers[1], &world, 1); /* it comes again, in the right one */
    assert_int_equal(world_opener_join(&openers[1]), 0);
    assert_int_equal(world_opener_join(&openers[0]), 0);
    world.meshes[0] = openers[0].mesh;
    world.meshes[1] = openers[1].mesh;
    world_close(&world);
    world_done(&world);
}

/*
 * While links are up the mesh does not accept: clients that only connect must not fill the queue.
 */
static void test_a_flood_leaves_room_in_the_backlog(void **state)
{
    (void)state;
    struct pair pair;
    int flood[600];
    uint8_t byte;
    pair_open(&pair, WORLD_SILENT_NS);
    for (size_t i = 0; i < ARRAY_COUNT(flood); i++)
        flood[i] = raw_connect(pair.world.addresses[0]);
    assert_false(raw_read(flood[0], &byte, 1)); /* turned away */
    for (unsigned tries = 0; tries < 5000 && tcp_waiting(pair.world.listeners[0].tcp) > 256;
         tries++)
        poll(NULL, 0, 1);
    assert_true(tcp_waiting(pair.world.listeners[0].tcp) <= 256);
    for (size_t i = 0; i < ARRAY_COUNT(flood); i++)
        close(flood[i]);
    mesh_abort(pair.mesh, "end");
    pair_done(&pair);
}

/* Rank 1 is authenticated, and gone again, before the other ranks have joined: its next attempt
 * counts. */
static void test_a_link_that_breaks_while_opening_is_made_again(void **state)
{
    (void)state;
    struct world world;
    struct opener opener;
    int first, second, other;
    world_init(&world, 3);
    world_opener_start(&opener, &world, 0);
    assert_int_equal(raw_join(&world, 1, 0, &first), 0);
    close(first);
    assert_int_equal(raw_join(&world, 1, 0, &second), 0);
    assert_int_equal(raw_join(&world, 2, 0, &other), 0);
    assert_int_equal(world_opener_join(&opener), 0);
    struct frame frame = {
        .type = FRAME_DATA, .source = 1, .generation = 7, .tag = 3, .size = 4, .length = 4};
    uint32_t word = 42, got = 0;
    struct mesh_request *request;
    raw_put(second, frame, &word);
    assert_int_equal(mesh_receive(opener.mesh, 1, 3, &got, sizeof(got), &request), 0);
    assert_int_equal(mesh_wait(request, UINT64_MAX), 0);
    assert_int_equal(got, 42);
    close(second);
    close(other);
    mesh_close(opener.mesh);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_peer_that_closes_is_lost),
        cmocka_unit_test(test_a_peer_that_resets_in_the_middle_of_a_message_is_lost),
        cmocka_unit_test(test_a_silent_peer_is_lost),
        cmocka_unit_test(test_a_peer_with_heartbeats_is_not_lost),
        cmocka_unit_test(test_a_peer_that_stops_reading_is_lost),
        cmocka_unit_test(test_a_fault_is_passed_on_along_a_chain),
        cmocka_unit_test(test_a_fault_overtakes_large_messages),
        cmocka_unit_test(test_a_wait_that_is_too_long_fails_the_mesh),
        cmocka_unit_test(test_another_size_than_expected_fails_the_mesh),
        cmocka_unit_test(test_a_peer_that_leaves_too_early_is_a_fault),
        cmocka_unit_test(test_a_word_or_a_fault_ends_a_wait_for_it),
        cmocka_unit_test(test_frames_that_are_not_allowed_end_the_link),
        cmocka_unit_test(test_no_changed_dropped_or_repeated_byte_arrives),
        cmocka_unit_test(test_nor_does_any_with_checksums),
        cmocka_unit_test(test_a_peer_that_overdraws_its_credit_ends_the_link),
        cmocka_unit_test(test_a_peer_that_offers_without_end_ends_the_link),
        cmocka_unit_test(test_the_text_of_a_fault_is_made_printable),
        cmocka_unit_test(test_strangers_are_refused_and_the_right_peer_gets_in),
        cmocka_unit_test(test_a_wrong_key_is_a_missing_permission_at_the_deadline),
        cmocka_unit_test(test_a_connector_of_an_older_generation_is_refused),
        cmocka_unit_test(test_a_flood_leaves_room_in_the_backlog),
        cmocka_unit_test(test_a_link_that_breaks_while_opening_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
