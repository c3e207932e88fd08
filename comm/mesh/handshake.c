#include "comm/mesh/handshake.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "base/bytes.h"

#define PROOF_LABEL "firn link proof 1"

/* Purpose of a keyed hash of the transcript. */
enum hash_use { PROOF_OF_CONNECTOR = 1, PROOF_OF_ACCEPTOR, SEAL_OF_CONNECTOR, SEAL_OF_ACCEPTOR };

#define AGREED_CHECKSUMS  0x80
#define OFFERED_CHECKSUMS 1u /* in the tag of HELLO and CHALLENGE; 0: authentication only */

_Static_assert(FRAME_HELLO_SIZE == HANDSHAKE_CHALLENGE_SIZE + 4 + NAME_SIZE, "layout of HELLO");
_Static_assert(FRAME_CHALLENGE_SIZE == HANDSHAKE_CHALLENGE_SIZE, "layout of CHALLENGE");
_Static_assert(FRAME_PROOF_SIZE == crypto_auth_BYTES, "layout of PROOF");
_Static_assert(FRAME_SEAL_KEY_SIZE == crypto_auth_BYTES, "a keyed hash is a key");
_Static_assert(MESH_KEY_SIZE == crypto_auth_KEYBYTES, "the key fits the hash");

/* Input of a proof: every field has a fixed offset, so no two transcripts encode alike. */
struct transcript {
    uint8_t bytes[sizeof(PROOF_LABEL) + 1 + NAME_SIZE + 8 + 4 + 4 + 2 * HANDSHAKE_CHALLENGE_SIZE];
};

static void transcript_make(const struct handshake *handshake, enum hash_use use,
                            struct transcript *ret_transcript)
{
    const struct handshake_identity *identity = handshake->identity;
    uint8_t *at = ret_transcript->bytes;
    memset(at, 0, sizeof(ret_transcript->bytes));
    memcpy(at, PROOF_LABEL, sizeof(PROOF_LABEL));
    at += sizeof(PROOF_LABEL);
    *at++ = (uint8_t)(use | (handshake->checksums ? AGREED_CHECKSUMS : 0));
    memcpy(at, identity->job, strnlen(identity->job, NAME_SIZE));
    at += NAME_SIZE;
    bytes_put_u64(at, identity->generation);
    bytes_put_u32(at + 8, handshake->connector ? identity->rank : handshake->peer_rank);
    bytes_put_u32(at + 12, handshake->connector ? handshake->peer_rank : identity->rank);
    at += 16;
    memcpy(at, handshake->connector_challenge, HANDSHAKE_CHALLENGE_SIZE);
    memcpy(at + HANDSHAKE_CHALLENGE_SIZE, handshake->acceptor_challenge, HANDSHAKE_CHALLENGE_SIZE);
}

static void reply_make(const struct handshake *handshake, enum frame_type type, uint64_t tag,
                       uint32_t length, struct handshake_reply *ret_reply)
{
    ret_reply->present = true;
    ret_reply->frame = (struct frame){
        .type = type,
        .source = handshake->connector ? handshake->identity->rank : handshake->wanted_rank,
        .length = length,
        .generation = handshake->generation,
        .tag = tag,
    };
}

static void reply_proof(const struct handshake *handshake, struct handshake_reply *ret_reply)
{
    struct transcript transcript;
    transcript_make(handshake, handshake->connector ? PROOF_OF_CONNECTOR : PROOF_OF_ACCEPTOR,
                    &transcript);
    reply_make(handshake, FRAME_PROOF, 0, FRAME_PROOF_SIZE, ret_reply);
    crypto_auth(ret_reply->payload, transcript.bytes, sizeof(transcript.bytes),
                handshake->identity->key);
}

static bool proof_right(const struct handshake *handshake, const uint8_t *proof)
{
    struct transcript transcript;
    transcript_make(handshake, handshake->connector ? PROOF_OF_ACCEPTOR : PROOF_OF_CONNECTOR,
                    &transcript);
    return crypto_auth_verify(proof, transcript.bytes, sizeof(transcript.bytes),
                              handshake->identity->key) == 0;
}

static void seal_key(const struct handshake *handshake, enum hash_use use,
                     uint8_t ret_key[FRAME_SEAL_KEY_SIZE])
{
    struct transcript transcript;
    transcript_make(handshake, use, &transcript);
    crypto_auth(ret_key, transcript.bytes, sizeof(transcript.bytes), handshake->identity->key);
}

enum frame_seal_kind handshake_seals(const struct handshake *handshake)
{
    assert(handshake->state == HANDSHAKE_PROVEN);
    return handshake->checksums ? SEAL_CHECKSUMS : SEAL_AUTHENTICATED;
}

static uint64_t offer_of(const struct handshake *handshake)
{
    return handshake->identity->checksums ? OFFERED_CHECKSUMS : 0;
}

static bool agrees(const struct handshake *handshake, const struct frame *frame)
{
    return handshake->identity->checksums && frame->tag == OFFERED_CHECKSUMS;
}

void handshake_keys(const struct handshake *handshake, uint8_t ret_key_out[FRAME_SEAL_KEY_SIZE],
                    uint8_t ret_key_in[FRAME_SEAL_KEY_SIZE])
{
    assert(handshake->state == HANDSHAKE_PROVEN);
    bool connector = handshake->connector;
    seal_key(handshake, connector ? SEAL_OF_CONNECTOR : SEAL_OF_ACCEPTOR, ret_key_out);
    seal_key(handshake, connector ? SEAL_OF_ACCEPTOR : SEAL_OF_CONNECTOR, ret_key_in);
}

static int fail(struct handshake *handshake, int code)
{
    handshake->state = HANDSHAKE_FAILED;
    return code;
}

void handshake_connect(struct handshake *handshake, const struct handshake_identity *identity,
                       unsigned peer_rank, const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE],
                       struct handshake_reply *ret_reply)
{
    *handshake = (struct handshake){
        .identity = identity,
        .state = HANDSHAKE_WANTS_CHALLENGE,
        .connector = true,
        .peer_rank = peer_rank,
        .generation = identity->generation,
    };
    memcpy(handshake->connector_challenge, challenge, HANDSHAKE_CHALLENGE_SIZE);
    reply_make(handshake, FRAME_HELLO, offer_of(handshake), FRAME_HELLO_SIZE, ret_reply);
    memset(ret_reply->payload, 0, FRAME_HELLO_SIZE);
    memcpy(ret_reply->payload, challenge, HANDSHAKE_CHALLENGE_SIZE);
    bytes_put_u32(ret_reply->payload + HANDSHAKE_CHALLENGE_SIZE, peer_rank);
    memcpy(ret_reply->payload + HANDSHAKE_CHALLENGE_SIZE + 4, identity->job,
           strnlen(identity->job, NAME_SIZE - 1));
}

void handshake_accept(struct handshake *handshake, const struct handshake_identity *identity,
                      const uint8_t challenge[HANDSHAKE_CHALLENGE_SIZE])
{
    *handshake = (struct handshake){.identity = identity, .state = HANDSHAKE_WANTS_HELLO};
    memcpy(handshake->acceptor_challenge, challenge, HANDSHAKE_CHALLENGE_SIZE);
}

/* Return the error for a HELLO that does not fit; 0: it fits. */
static int mismatch_of(const struct handshake *handshake, const struct frame *frame,
                       const uint8_t *payload)
{
    const struct handshake_identity *identity = handshake->identity;
    const char *job = (const char *)payload + HANDSHAKE_CHALLENGE_SIZE + 4;
    if (strncmp(job, identity->job, NAME_SIZE) != 0)
        return -ENOENT;
    if (frame->generation != identity->generation)
        return frame->generation < identity->generation ? -EBUSY : -ESTALE;
    return handshake->wanted_rank == identity->rank && frame->source > identity->rank &&
                   identity->expects(identity->context, frame->source)
               ? 0
               : -ENOENT;
}

static int step_hello(struct handshake *handshake, const struct frame *frame,
                      const uint8_t *payload, struct handshake_reply *ret_reply)
{
    handshake->wanted_rank = bytes_get_u32(payload + HANDSHAKE_CHALLENGE_SIZE);
    handshake->generation = frame->generation;
    handshake->peer_rank = frame->source;
    handshake->mismatch = mismatch_of(handshake, frame, payload);
    handshake->checksums = agrees(handshake, frame);
    memcpy(handshake->connector_challenge, payload, HANDSHAKE_CHALLENGE_SIZE);
    reply_make(handshake, FRAME_CHALLENGE, offer_of(handshake), FRAME_CHALLENGE_SIZE, ret_reply);
    memcpy(ret_reply->payload, handshake->acceptor_challenge, HANDSHAKE_CHALLENGE_SIZE);
    handshake->state = HANDSHAKE_WANTS_PROOF;
    return 0;
}

static int step_proof(struct handshake *handshake, const uint8_t *payload,
                      struct handshake_reply *ret_reply)
{
    bool right = proof_right(handshake, payload); /* computed also for a HELLO that does not fit, so
                                                   * that the time reveals nothing */
    if (!right || handshake->mismatch) {
        if (!handshake->connector)
            reply_make(handshake, FRAME_REFUSED, HANDSHAKE_COME_AGAIN, 0, ret_reply);
        return fail(handshake, handshake->mismatch ? handshake->mismatch : -EPERM);
    }
    if (!handshake->connector)
        reply_proof(handshake, ret_reply);
    handshake->state = HANDSHAKE_PROVEN;
    return 0;
}

bool handshake_fits(const struct handshake *handshake)
{
    return !handshake->connector && handshake->state == HANDSHAKE_WANTS_PROOF &&
           !handshake->mismatch;
}

int handshake_step(struct handshake *handshake, const struct frame *frame, const uint8_t *payload,
                   struct handshake_reply *ret_reply)
{
    ret_reply->present = false;
    if (handshake->state == HANDSHAKE_WANTS_HELLO)
        return frame->type == FRAME_HELLO ? step_hello(handshake, frame, payload, ret_reply)
                                          : fail(handshake, -EPROTO);
    if (handshake->connector && frame->type == FRAME_REFUSED &&
        (handshake->state == HANDSHAKE_WANTS_CHALLENGE ||
         handshake->state == HANDSHAKE_WANTS_PROOF))
        return fail(handshake,
                    frame->tag >= 1 && frame->tag <= HANDSHAKE_REASON_MAX ? -EBUSY : -EPROTO);
    if (frame->generation != handshake->generation || frame->source != handshake->peer_rank)
        return fail(handshake, -EPROTO);
    if (handshake->state == HANDSHAKE_WANTS_CHALLENGE && frame->type == FRAME_CHALLENGE) {
        memcpy(handshake->acceptor_challenge, payload, HANDSHAKE_CHALLENGE_SIZE);
        handshake->checksums = agrees(handshake, frame);
        reply_proof(handshake, ret_reply);
        handshake->state = HANDSHAKE_WANTS_PROOF;
        return 0;
    }
    if (handshake->state == HANDSHAKE_WANTS_PROOF && frame->type == FRAME_PROOF)
        return step_proof(handshake, payload, ret_reply);
    return fail(handshake, -EPROTO);
}
