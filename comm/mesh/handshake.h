/*
 * Authenticate the other end of a connection: a challenge-response over the key of the generation,
 * as a pure state machine.
 *
 *     connector (higher rank)                         acceptor (lower rank)
 *         HELLO {challenge C, rank wanted, job}   ->
 *                                                 <-  CHALLENGE {challenge A}
 *         PROOF {H(connector)}                    ->
 *                                                 <-  PROOF {H(acceptor)}, or REFUSED
 *
 * H(direction) is HMAC-SHA512-256 under the key over a label, the direction, job, generation, both
 * ranks and both challenges. Fresh challenges of both sides keep out replays, the direction keeps
 * out reflections. The acceptor sends nothing that depends on the key before the connector has
 * proved itself. The frames after the handshake are sealed with keys of this transcript, one for
 * each direction (comm/mesh/frame_seal.h). Frames are not encrypted: the network between the nodes
 * can read the data, but cannot change it unnoticed.
 *
 * The tags of HELLO and CHALLENGE say whether that end accepts checksums instead of authentication.
 * A link uses checksums if both ends accept them. The agreed choice is part of the transcript, so a
 * man in the middle cannot change it.
 *
 * A refusal reveals nothing to a stranger: each well-formed HELLO gets a challenge, for any job,
 * rank and generation, and each wrong proof gets the same refusal. So an attacker without the key
 * does not learn which job runs here, or at which generation. A refused connector retries until its
 * deadline: the acceptor may reach its generation, or its own plan may be replaced.
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

/* The only refusal code. Older builds sent 1 to 4, which revealed the reason to a stranger. */
#define HANDSHAKE_COME_AGAIN 2
#define HANDSHAKE_REASON_MAX 4

struct handshake_identity {
    char job[NAME_SIZE];
    uint64_t generation;
    uint8_t key[MESH_KEY_SIZE];
    unsigned rank;
    bool checksums; /* accept checksums as seals if the other end accepts them too */
    bool (*expects)(void *context, unsigned rank); /* acceptor: returns whether @rank is a peer that
                                                    * connects to this one */
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
    bool checksums;       /* both ends accept checksums */
    int mismatch;         /* acceptor: the error for any proof; 0: HELLO names this rank, job and
                           * generation */
    uint8_t connector_challenge[HANDSHAKE_CHALLENGE_SIZE];
    uint8_t acceptor_challenge[HANDSHAKE_CHALLENGE_SIZE];
};

struct handshake_reply {
    bool present;
    struct frame frame;
    uint8_t payload[FRAME_SMALL_MAX];
};

/** handshake_connect() - begin the connector's side; @ret_reply is the HELLO to send */
void handshake_connect(struct handshake *handshake, const struct handshake_identity *identity,
                       unsigned peer_rank, const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE],
                       struct handshake_reply *ret_reply);

/** handshake_accept() - begin the acceptor's side, which waits for a HELLO */
void handshake_accept(struct handshake *handshake, const struct handshake_identity *identity,
                      const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE]);

/** handshake_fits() - return whether the acceptor has a HELLO that names this job, this generation
 * and an expected peer, and waits for its proof */
bool handshake_fits(const struct handshake *handshake);

/** handshake_seals() - return the kind of seal that both ends agreed on; only in
 * HANDSHAKE_PROVEN */
enum frame_seal_kind handshake_seals(const struct handshake *handshake);
/** handshake_keys() - return the seal keys of the outgoing and the incoming direction; only in
 * HANDSHAKE_PROVEN */
void handshake_keys(const struct handshake *handshake, uint8_t ret_key_out[FRAME_SEAL_KEY_SIZE],
                    uint8_t ret_key_in[FRAME_SEAL_KEY_SIZE]);

/**
 * handshake_step() - process one received frame; @payload has frame->length bytes
 * @ret_reply: to be sent in every case, also before the connection is closed for an error
 *
 * Return: 0 (look at handshake->state); -EPERM (a wrong proof), -EPROTO (not a frame for now);
 * connector: -EBUSY (refused); acceptor, after a proof whose HELLO fits nothing here: -ESTALE (its
 * generation is newer), -EBUSY (older), -ENOENT (a stranger). After an error the machine stays in
 * HANDSHAKE_FAILED.
 */
int handshake_step(struct handshake *handshake, const struct frame *frame, const uint8_t *payload,
                   struct handshake_reply *ret_reply) CHECK_RESULT;
