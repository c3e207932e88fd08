/*
 * Meshes of several ranks inside one process over 127.0.0.1, and a peer made of a plain socket that
 * can misbehave in every way.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "comm/mesh/handshake.h"
#include "comm/mesh/mesh.h"

#define WORLD_MAX       16
#define WORLD_OPEN_NS   (20 * NS_PER_SECOND)
#define WORLD_SILENT_NS (10 * NS_PER_SECOND) /* on a busy machine no rank is silent that long */

/* Of all worlds from now on. */
extern bool world_checksums; /* links use checksums */
extern bool world_same_node; /* ranks link within the machine; otherwise by TCP */

struct world {
    unsigned count;
    bool chain; /* links between neighbours only; otherwise between all */
    struct mesh_listener listeners[WORLD_MAX];
    char addresses[WORLD_MAX][ADDRESS_SIZE];
    uint64_t generation;
    uint64_t failure_timeout_ns;
    uint64_t open_ns;
    uint64_t unexpected_max_bytes;
    uint64_t shares[WORLD_MAX]; /* credit for other ranks' messages, by rank; 0: an even share */
    bool any_address;           /* of connections */
    bool late[WORLD_MAX];       /* these ranks join later than the others */
    uint8_t key[MESH_KEY_SIZE];
    struct mesh *meshes[WORLD_MAX];
};

/** world_init() - listen for @count ranks on ports of 127.0.0.1 */
void world_init(struct world *world, unsigned count);

/** world_done() - close the listeners */
void world_done(struct world *world);

/* @peers: room for WORLD_MAX, referenced by the result */
struct mesh_options world_options(const struct world *world, unsigned rank,
                                  struct mesh_peer *peers);

/* One rank's mesh_open() in its own thread. */
struct opener {
    struct world *world;
    unsigned rank;
    int cancel;
    int result;
    struct error error;
    struct mesh_unreached unreached;
    struct mesh *mesh;
    pthread_t thread;
};

/** world_opener_run() - open the mesh of a struct opener; a thread's function */
void *world_opener_run(void *context);

/** world_opener_start() - begin to open the mesh of @rank in a thread */
void world_opener_start(struct opener *opener, struct world *world, unsigned rank);

/** world_opener_join() - wait for the thread. Return: the result of mesh_open() */
int world_opener_join(struct opener *opener);

/** world_open() - open the meshes of all ranks at once; they must open */
void world_open(struct world *world);

/* Close all meshes at once, as workers do at a switch. */
void world_close(struct world *world);

/* ---- a peer made of a plain, blocking socket ---- */

/* The seals of the link on each descriptor, after its handshake. */
struct raw_seals {
    struct frame_seal *out, *in;
};
extern struct raw_seals raw_seals[1024];

/* @from: "127.0.0.9"; NULL: the kernel chooses */
int raw_connect_from(const char *from, const char *address);

/** raw_connect() - connect to @address */
int raw_connect(const char *address);

/** raw_try_write() - write all of @data. Return false when the link is closed */
bool raw_try_write(int descriptor, const void *data, size_t size);

/* Return: false at the end of the stream */
bool raw_read(int descriptor, void *data, size_t size);

/* @payload: NULL: no payload follows, even if the header has a length. Return false when the link
 * is closed */
bool raw_try_put(int descriptor, struct frame frame, const void *payload);

/** raw_put() - send a frame, which must go out */
void raw_put(int descriptor, struct frame frame, const void *payload);

/* @ret_payload: room for FRAME_SMALL_MAX + 1 */
bool raw_get(int descriptor, struct frame *ret_frame, uint8_t *ret_payload);

/* Get the next frame that is no heartbeat and no credit; false at the end of the stream. */
bool raw_get_news(int descriptor, struct frame *ret_frame, uint8_t *ret_payload);

/* Connect to @to as rank @self, send HELLO, and no more. */
int raw_hello(const struct world *world, unsigned self, unsigned to);

/* Return whether the other side has left the connection open so far. */
bool raw_is_open(int descriptor);

/*
 * Connect to @to as rank @self and do the handshake. Return: its outcome as of handshake_step(),
 * -ESHUTDOWN when the other side just closed; 0: the link is up, in *ret_descriptor.
 */
int raw_join_from(const char *from, const struct world *world, unsigned self, unsigned to,
                  int *ret_descriptor);

/** raw_join() - connect to @to as rank @self from any address; see raw_join_from() */
int raw_join(const struct world *world, unsigned self, unsigned to, int *ret_descriptor);
