#include "lib/comm/mesh_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"

bool world_checksums, world_same_node;

void world_init(struct world *world, unsigned count)
{
    memset(world, 0, sizeof(*world));
    world->count = count;
    world->generation = 7;
    world->failure_timeout_ns = WORLD_SILENT_NS;
    world->open_ns = WORLD_OPEN_NS;
    memset(world->key, 0x5a, sizeof(world->key));
    for (unsigned i = 0; i < count; i++) {
        struct error error = {0};
        assert_int_equal(mesh_listen("127.0.0.1:0", &world->listeners[i], &error), 0);
        assert_int_equal(mesh_listener_address(&world->listeners[i], world->addresses[i]), 0);
    }
}

void world_done(struct world *world)
{
    for (unsigned i = 0; i < world->count; i++)
        mesh_listener_close(&world->listeners[i]);
}

struct mesh_options world_options(const struct world *world, unsigned rank, struct mesh_peer *peers)
{
    struct mesh_options options = {
        .job = "exact",
        .generation = world->generation,
        .rank = rank,
        .peers = peers,
        .listener = world->listeners[rank],
        .failure_timeout_ns = world->failure_timeout_ns,
        .unexpected_max_bytes = world->unexpected_max_bytes,
        .checksums = world_checksums,
        .any_address = world->any_address,
        .connect_timeout_ns = world->open_ns,
    };
    memcpy(options.key, world->key, sizeof(options.key));
    for (unsigned i = 0; i < world->count; i++) {
        if (i == rank || (world->chain && i + 1 != rank && rank + 1 != i))
            continue;
        struct mesh_peer *peer = &peers[options.peer_count++];
        *peer = (struct mesh_peer){.rank = i,
                                   .unexpected_max_bytes = world->shares[i],
                                   .same_node = world_same_node,
                                   .joins_later = world->late[i] && !world->late[rank]};
        memcpy(peer->address, world->addresses[i], ADDRESS_SIZE);
        snprintf(peer->name, sizeof(peer->name), "%c/0", (char)('a' + (int)i));
    }
    return options;
}

void *world_opener_run(void *context)
{
    struct opener *opener = context;
    struct mesh_peer peers[WORLD_MAX];
    struct mesh_options options = world_options(opener->world, opener->rank, peers);
    options.unreached = &opener->unreached;
    opener->result = mesh_open(&options, opener->cancel, &opener->mesh, &opener->error);
    return NULL;
}

void world_opener_start(struct opener *opener, struct world *world, unsigned rank)
{
    memset(opener, 0, sizeof(*opener));
    opener->world = world;
    opener->rank = rank;
    opener->cancel = -1;
    assert_int_equal(pthread_create(&opener->thread, NULL, world_opener_run, opener), 0);
}

int world_opener_join(struct opener *opener)
{
    assert_int_equal(pthread_join(opener->thread, NULL), 0);
    return opener->result;
}

void world_open(struct world *world)
{
    struct opener openers[WORLD_MAX];
    for (unsigned i = 0; i < world->count; i++)
        world_opener_start(&openers[i], world, i);
    for (unsigned i = 0; i < world->count; i++) {
        if (world_opener_join(&openers[i]) < 0)
            fail_msg("rank %u: %s", i, openers[i].error.text);
        world->meshes[i] = openers[i].mesh;
    }
}

static void *closer_run(void *mesh)
{
    mesh_close(mesh);
    return NULL;
}

void world_close(struct world *world)
{
    pthread_t threads[WORLD_MAX];
    for (unsigned i = 0; i < world->count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, closer_run, world->meshes[i]), 0);
    for (unsigned i = 0; i < world->count; i++)
        pthread_join(threads[i], NULL);
}

struct raw_seals raw_seals[1024];

static void raw_forget_seals(int descriptor)
{
    assert_true(descriptor < (int)ARRAY_COUNT(raw_seals));
    frame_seal_free(raw_seals[descriptor].out);
    frame_seal_free(raw_seals[descriptor].in);
    raw_seals[descriptor].out = raw_seals[descriptor].in = NULL;
}

int raw_connect_from(const char *from, const char *address)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    unsigned port = (unsigned)strtoul(strrchr(address, ':') + 1, NULL, 10);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(descriptor >= 0);
    if (from) {
        assert_int_equal(inet_pton(AF_INET, from, &source.sin_addr), 1);
        assert_int_equal(bind(descriptor, (struct sockaddr *)&source, sizeof(source)), 0);
    }
    assert_int_equal(connect(descriptor, (struct sockaddr *)&to, sizeof(to)), 0);
    raw_forget_seals(descriptor);
    return descriptor;
}

int raw_connect(const char *address)
{
    return raw_connect_from(NULL, address);
}

bool raw_try_write(int descriptor, const void *data, size_t size)
{
    for (const uint8_t *at = data; size > 0;) {
        ssize_t count = send(descriptor, at, size, MSG_NOSIGNAL);
        if (count <= 0)
            return false;
        at += count;
        size -= (size_t)count;
    }
    return true;
}

bool raw_read(int descriptor, void *data, size_t size)
{
    for (uint8_t *at = data; size > 0;) {
        ssize_t count = recv(descriptor, at, size, 0);
        if (count <= 0)
            return false;
        at += count;
        size -= (size_t)count;
    }
    return true;
}

/* Append @data and, on a link after its handshake, the tag to the end of @wire. */
static void raw_append(int descriptor, struct bytes *wire, const void *data, size_t size)
{
    uint8_t tag[FRAME_SEAL_TAG_SIZE];
    struct frame_seal *seal = raw_seals[descriptor].out;
    assert_int_equal(bytes_append(wire, data, size), 0);
    if (seal) {
        assert_int_equal(frame_seal_make(seal, data, size, tag), 0);
        assert_int_equal(bytes_append(wire, tag, sizeof(tag)), 0);
    }
}

bool raw_try_put(int descriptor, struct frame frame, const void *payload)
{
    uint8_t header[FRAME_HEADER_SIZE];
    struct bytes wire = {0};
    frame_encode(&frame, header);
    raw_append(descriptor, &wire, header, sizeof(header));
    if (frame.length > 0 && payload)
        raw_append(descriptor, &wire, payload, frame.length);
    bool written = raw_try_write(descriptor, wire.data, wire.size_bytes);
    bytes_done(&wire);
    return written;
}

void raw_put(int descriptor, struct frame frame, const void *payload)
{
    assert_true(raw_try_put(descriptor, frame, payload));
}

static bool raw_read_sealed(int descriptor, void *data, size_t size)
{
    uint8_t tag[FRAME_SEAL_TAG_SIZE];
    struct frame_seal *seal = raw_seals[descriptor].in;
    if (!raw_read(descriptor, data, size))
        return false;
    if (!seal)
        return true;
    if (!raw_read(descriptor, tag, sizeof(tag)))
        return false;
    assert_int_equal(frame_seal_check(seal, data, size, tag), 0);
    return true;
}

bool raw_get(int descriptor, struct frame *ret_frame, uint8_t *ret_payload)
{
    uint8_t header[FRAME_HEADER_SIZE];
    if (!raw_read_sealed(descriptor, header, sizeof(header)))
        return false;
    assert_int_equal(frame_decode(header, ret_frame), 0);
    assert_true(ret_frame->length <= FRAME_SMALL_MAX);
    ret_payload[ret_frame->length] = 0;
    return ret_frame->length == 0 || raw_read_sealed(descriptor, ret_payload, ret_frame->length);
}

static void raw_seal(int descriptor, const struct handshake *handshake)
{
    uint8_t key_out[FRAME_SEAL_KEY_SIZE], key_in[FRAME_SEAL_KEY_SIZE];
    handshake_keys(handshake, key_out, key_in);
    assert_int_equal(
        frame_seal_new(handshake_seals(handshake), key_out, &raw_seals[descriptor].out), 0);
    assert_int_equal(frame_seal_new(handshake_seals(handshake), key_in, &raw_seals[descriptor].in),
                     0);
}

bool raw_get_news(int descriptor, struct frame *ret_frame, uint8_t *ret_payload)
{
    do {
        if (!raw_get(descriptor, ret_frame, ret_payload))
            return false;
    } while (ret_frame->type == FRAME_HEARTBEAT || ret_frame->type == FRAME_CREDIT);
    return true;
}

int raw_hello(const struct world *world, unsigned self, unsigned to)
{
    const struct handshake_identity identity = {
        .job = "exact", .generation = world->generation, .rank = self};
    struct handshake handshake;
    struct handshake_reply hello;
    const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE] = {1, 2, 3};
    int descriptor = raw_connect(world->addresses[to]);
    handshake_connect(&handshake, &identity, to, challenge, &hello);
    raw_put(descriptor, hello.frame, hello.payload);
    return descriptor;
}

bool raw_is_open(int descriptor)
{
    uint8_t byte;
    return recv(descriptor, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

int raw_join_from(const char *from, const struct world *world, unsigned self, unsigned to,
                  int *ret_descriptor)
{
    struct handshake_identity identity = {.job = "exact",
                                          .generation = world->generation,
                                          .rank = self,
                                          .checksums = world_checksums};
    struct handshake handshake;
    struct handshake_reply reply;
    const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE] = {1, 2, 3};
    memcpy(identity.key, world->key, sizeof(identity.key));
    int descriptor = raw_connect_from(from, world->addresses[to]);
    handshake_connect(&handshake, &identity, to, challenge, &reply);
    int status = 0;
    while (status == 0) {
        struct frame frame;
        uint8_t payload[FRAME_SMALL_MAX + 1];
        bool put = !reply.present || raw_try_put(descriptor, reply.frame, reply.payload);
        if (put && handshake.state == HANDSHAKE_PROVEN)
            break;
        if (!put || !raw_get(descriptor, &frame, payload))
            status = -ESHUTDOWN;
        else
            status = handshake_step(&handshake, &frame, payload, &reply);
    }
    if (status < 0) {
        close(descriptor);
        return status;
    }
    raw_seal(descriptor, &handshake);
    const struct frame credit = {
        .type = FRAME_CREDIT, .source = self, .generation = world->generation};
    raw_put(descriptor, credit, NULL);
    *ret_descriptor = descriptor;
    return 0;
}

int raw_join(const struct world *world, unsigned self, unsigned to, int *ret_descriptor)
{
    return raw_join_from(NULL, world, self, to, ret_descriptor);
}
