/*
 * Who is at the other end: a challenge-response over the key of the generation, as a pure machine.
 *
 *     connector (higher rank)                         acceptor (lower rank)
 *         HELLO {challenge C, rank wanted, job}   ->
 *                                                 <-  CHALLENGE {challenge A}, or REFUSED {why}
 *         PROOF {H(connector)}                    ->
 *                                                 <-  PROOF {H(acceptor)}, or REFUSED
 *
 * H(direction) is HMAC-SHA512-256 under the key over a label, the direction, job, generation, both
 * ranks and both challenges. Fresh challenges of both sides keep out replays, the direction keeps
 * out reflections. The acceptor says nothing that depends on the key before the connector has
 * proved itself. What follows on the connection is sealed with keys of this transcript, one for
 * each direction (comm/seal.h). It is not encrypted: the network between the nodes may read the
 * data, but cannot change it unnoticed.
 *
 * Generations fence: an acceptor tells an older connector STALE (it gives up) and a newer one EARLY
 * (it tries again until the acceptor is there too). These two answers are not authenticated; who
 * can answer at a peer's address can keep that peer from being reached anyway.
 *
 * No I/O, no clock, no randomness: the owner feeds frames in, sends the reply, provides challenges.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/name.h"
#include "comm/frame.h"
#include "comm/mesh.h"
#include "comm/seal.h"

#define HANDSHAKE_CHALLENGE_SIZE 32

enum handshake_refusal {
    HANDSHAKE_STALE = 1, /* the acceptor's generation is newer */
    HANDSHAKE_EARLY,     /* the acceptor's generation is older: come again */
    HANDSHAKE_STRANGER, /* another job, not the rank wanted, or nobody that I talk to: come again */
    HANDSHAKE_DENIED,   /* the proof is wrong */
};

struct handshake_identity {
    char job[NAME_SIZE];
    uint64_t generation;
    uint8_t key[MESH_KEY_SIZE];
    unsigned rank;
    bool (*expects)(void *context,
                    unsigned rank); /* acceptor: is that a peer which connects to me */
    void *context;
};

enum handshake_state {
    HANDSHAKE_WANTS_HELLO,
    HANDSHAKE_WANTS_CHALLENGE,
    HANDSHAKE_WANTS_PROOF,
    HANDSHAKE_PROVEN,
    HANDSHAKE_FAILED,
};

struct handshake {
    const struct handshake_identity *identity; /* borrowed */
    enum handshake_state state;
    bool connector;
    unsigned peer_rank; /* acceptor: known after HELLO, proven in HANDSHAKE_PROVEN */
    uint8_t connector_challenge[HANDSHAKE_CHALLENGE_SIZE];
    uint8_t acceptor_challenge[HANDSHAKE_CHALLENGE_SIZE];
};

struct handshake_reply {
    bool present;
    struct frame frame;
    uint8_t payload[FRAME_SMALL_MAX];
};

/** handshake_connect() - the connector's side; @ret_reply is the HELLO to send */
void handshake_connect(struct handshake *handshake, const struct handshake_identity *identity,
                       unsigned peer_rank, const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE],
                       struct handshake_reply *ret_reply);

/** handshake_accept() - the acceptor's side, which waits for a HELLO */
void handshake_accept(struct handshake *handshake, const struct handshake_identity *identity,
                      const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE]);

/** handshake_keys() - in HANDSHAKE_PROVEN: of the seals of what leaves here, and of what comes */
void handshake_keys(const struct handshake *handshake, uint8_t ret_key_out[SEAL_KEY_SIZE],
                    uint8_t ret_key_in[SEAL_KEY_SIZE]);

/**
 * handshake_step() - one frame that came; @payload has frame->length bytes
 * @ret_reply: to be sent in every case, also before the connection is closed for an error
 *
 * Return: 0 (look at handshake->state); -ESTALE (the peer's generation is newer), -EBUSY (it is
 * older), -ENOENT (a stranger, or the peer calls us one), -EPERM (a wrong proof, or the peer says
 * so), -EPROTO (not a frame for now). After an error the machine stays in HANDSHAKE_FAILED.
 */
int handshake_step(struct handshake *handshake, const struct frame *frame, const uint8_t *payload,
                   struct handshake_reply *ret_reply) CHECK_RESULT;
