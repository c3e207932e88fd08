/*
 * Who is at the other end: a challenge-response over the key of the generation, as a pure machine.
 *
 *     connector (higher rank)                         acceptor (lower rank)
 *         HELLO {challenge C, rank wanted, job}   ->
 *                                                 <-  CHALLENGE {challenge A}
 *         PROOF {H(connector)}                    ->
 *                                                 <-  PROOF {H(acceptor)}, or REFUSED
 *
 * H(direction) is HMAC-SHA512-256 under the key over a label, the direction, job, generation, both
 * ranks and both challenges. Fresh challenges of both sides keep out replays, the direction keeps
 * out reflections. The acceptor says nothing that depends on the key before the connector has
 * proved itself. What follows on the connection is sealed with keys of this transcript, one for
 * each direction (comm/mesh/frame_seal.h). It is not encrypted: the network between the nodes may
 * read the data, but cannot change it unnoticed.
 *
 * HELLO and CHALLENGE say in their tag whether checksums will do instead of authentication. They do
 * where both ends are set so, and what is agreed on is part of the transcript: whoever sits on the
 * way cannot change it.
 *
 * A refusal tells a stranger nothing: each well-formed HELLO gets a challenge, whatever job, rank
 * and generation it names, and each wrong proof the same refusal. So nobody without the key learns
 * which job runs here, or at which generation. A refused connector comes again until its deadline:
 * the acceptor may get to its generation, or its own plan be replaced.
 *
 * No I/O, no clock, no randomness: the owner feeds frames in, sends the reply, provides challenges.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/name.h"
#include "comm/mesh/frame.h"
#include "comm/mesh/frame_seal.h"
#include "comm/mesh/mesh.h"

#define HANDSHAKE_CHALLENGE_SIZE 32

/* The one refusal. Builds before this one said 1 to 4 for reasons that anybody could read. */
#define HANDSHAKE_COME_AGAIN 2
#define HANDSHAKE_REASON_MAX 4

struct handshake_identity {
    char job[NAME_SIZE];
    uint64_t generation;
    uint8_t key[MESH_KEY_SIZE];
    unsigned rank;
    bool checksums; /* will do for the seals of a link whose other end says so, too */
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
    unsigned peer_rank;   /* acceptor: known after HELLO, proven in HANDSHAKE_PROVEN */
    uint64_t generation;  /* that the connector names */
    unsigned wanted_rank; /* acceptor: that the connector names */
    bool checksums;       /* both said that they will do */
    int mismatch;         /* acceptor: why no proof will do; 0: HELLO names me and my generation */
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

/** handshake_fits() - acceptor: a HELLO is here that names this job, generation and an expected
 * peer, and its proof is awaited */
bool handshake_fits(const struct handshake *handshake);

/** handshake_seals() - in HANDSHAKE_PROVEN: what both ends agree on */
enum frame_seal_kind handshake_seals(const struct handshake *handshake);
/** handshake_keys() - in HANDSHAKE_PROVEN: of the seals of what leaves here, and of what comes */
void handshake_keys(const struct handshake *handshake, uint8_t ret_key_out[FRAME_SEAL_KEY_SIZE],
                    uint8_t ret_key_in[FRAME_SEAL_KEY_SIZE]);

/**
 * handshake_step() - one frame that came; @payload has frame->length bytes
 * @ret_reply: to be sent in every case, also before the connection is closed for an error
 *
 * Return: 0 (look at handshake->state); -EPERM (a wrong proof), -EPROTO (not a frame for now);
 * connector: -EBUSY (refused); acceptor, where a proof came with a HELLO that fits nothing here:
 * -ESTALE (its generation is newer), -EBUSY (older), -ENOENT (a stranger). After an error the
 * machine stays in HANDSHAKE_FAILED.
 */
int handshake_step(struct handshake *handshake, const struct frame *frame, const uint8_t *payload,
                   struct handshake_reply *ret_reply) CHECK_RESULT;
