#include "comm/handshake.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "base/bytes.h"

#define PROOF_LABEL "firn link proof 1"

/* What a keyed hash of the transcript is for. */
enum hash_use { PROOF_OF_CONNECTOR = 1, PROOF_OF_ACCEPTOR, SEAL_OF_CONNECTOR, SEAL_OF_ACCEPTOR };

_Static_assert(FRAME_HELLO_SIZE == HANDSHAKE_CHALLENGE_SIZE + 4 + NAME_SIZE, "layout of HELLO");
_Static_assert(FRAME_CHALLENGE_SIZE == HANDSHAKE_CHALLENGE_SIZE, "layout of CHALLENGE");
_Static_assert(FRAME_PROOF_SIZE == crypto_auth_BYTES, "layout of PROOF");
_Static_assert(SEAL_KEY_SIZE == crypto_auth_BYTES, "a keyed hash is a key");
_Static_assert(MESH_KEY_SIZE == crypto_auth_KEYBYTES, "the key fits the hash");

/* What a proof is made over: every field has a fixed place, so no two transcripts look alike. */
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
    *at++ = (uint8_t)use;
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
        .source = handshake->identity->rank,
        .length = length,
        .generation = handshake->identity->generation,
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
                     uint8_t ret_key[SEAL_KEY_SIZE])
{
    struct transcript transcript;
    transcript_make(handshake, use, &transcript);
    crypto_auth(ret_key, transcript.bytes, sizeof(transcript.bytes), handshake->identity->key);
}

void handshake_keys(const struct handshake *handshake, uint8_t ret_key_out[SEAL_KEY_SIZE],
                    uint8_t ret_key_in[SEAL_KEY_SIZE])
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

static int refuse(struct handshake *handshake, enum handshake_refusal why, int code,
                  struct handshake_reply *ret_reply)
{
    reply_make(handshake, FRAME_REFUSED, why, 0, ret_reply);
    return fail(handshake, code);
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
    };
    memcpy(handshake->connector_challenge, challenge, HANDSHAKE_CHALLENGE_SIZE);
    reply_make(handshake, FRAME_HELLO, 0, FRAME_HELLO_SIZE, ret_reply);
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

static int step_hello(struct handshake *handshake, const struct frame *frame,
                      const uint8_t *payload, struct handshake_reply *ret_reply)
{
    const struct handshake_identity *identity = handshake->identity;
    const char *job = (const char *)payload + HANDSHAKE_CHALLENGE_SIZE + 4;
    if (strncmp(job, identity->job, NAME_SIZE) != 0)
        return refuse(handshake, HANDSHAKE_STRANGER, -ENOENT, ret_reply);
    if (frame->generation < identity->generation)
        return refuse(handshake, HANDSHAKE_STALE, -EBUSY, ret_reply);
    if (frame->generation > identity->generation)
        return refuse(handshake, HANDSHAKE_EARLY, -ESTALE, ret_reply);
    if (bytes_get_u32(payload + HANDSHAKE_CHALLENGE_SIZE) != identity->rank ||
        frame->source <= identity->rank || !identity->expects(identity->context, frame->source))
        return refuse(handshake, HANDSHAKE_STRANGER, -ENOENT, ret_reply);

    handshake->peer_rank = frame->source;
    memcpy(handshake->connector_challenge, payload, HANDSHAKE_CHALLENGE_SIZE);
    reply_make(handshake, FRAME_CHALLENGE, 0, FRAME_CHALLENGE_SIZE, ret_reply);
    memcpy(ret_reply->payload, handshake->acceptor_challenge, HANDSHAKE_CHALLENGE_SIZE);
    handshake->state = HANDSHAKE_WANTS_PROOF;
    return 0;
}

static int step_refused(struct handshake *handshake, const struct frame *frame)
{
    switch (frame->tag) {
    case HANDSHAKE_STALE:
        /* Whoever says so must itself be newer: a confused acceptor does not end our wait. */
        return fail(handshake,
                    frame->generation > handshake->identity->generation ? -ESTALE : -EPROTO);
    case HANDSHAKE_EARLY:
        return fail(handshake, -EBUSY);
    case HANDSHAKE_STRANGER:
        return fail(handshake, -ENOENT);
    case HANDSHAKE_DENIED:
        return fail(handshake, -EPERM);
    default:
        return fail(handshake, -EPROTO);
    }
}

static int step_proof(struct handshake *handshake, const uint8_t *payload,
                      struct handshake_reply *ret_reply)
{
    if (!proof_right(handshake, payload)) {
        if (handshake->connector)
            return fail(handshake, -EPERM);
        return refuse(handshake, HANDSHAKE_DENIED, -EPERM, ret_reply);
    }
    if (!handshake->connector)
        reply_proof(handshake, ret_reply);
    handshake->state = HANDSHAKE_PROVEN;
    return 0;
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
        return step_refused(handshake, frame);
    if (frame->generation != handshake->identity->generation ||
        frame->source != handshake->peer_rank)
        return fail(handshake, -EPROTO);
    if (handshake->state == HANDSHAKE_WANTS_CHALLENGE && frame->type == FRAME_CHALLENGE) {
        memcpy(handshake->acceptor_challenge, payload, HANDSHAKE_CHALLENGE_SIZE);
        reply_proof(handshake, ret_reply);
        handshake->state = HANDSHAKE_WANTS_PROOF;
        return 0;
    }
    if (handshake->state == HANDSHAKE_WANTS_PROOF && frame->type == FRAME_PROOF)
        return step_proof(handshake, payload, ret_reply);
    return fail(handshake, -EPROTO);
}
