/*
 * Encode and decode the frames of a link: a fixed header and a bounded payload, little-endian.
 *
 *     0 magic   4 version   5 type   6 zero   8 source rank   12 payload length
 *    16 generation   24 tag   32 size
 *
 * A message is cut into segments of at most FRAME_SEGMENT_MAX bytes: DATA or DELIVERY opens it and
 * gives its total size; PART frames continue it. Any small frame may come between two segments, so
 * a heartbeat or a fault never waits behind a gigabyte. Two messages are never mixed.
 *
 * The receiver's memory is bounded by credit (CREDIT grants bytes): a message that fits the credit
 * is sent at once (DATA); any other is only announced (OFFER), and sent (DELIVERY) when the
 * receiver has memory for it and sends ACCEPT. So a receiver never has to stop reading, and
 * heartbeats and faults always arrive, even if its main thread lags.
 *
 * Behind the handshake every header, and every payload that is not empty, is followed by a tag of
 * 16 bytes (comm/mesh/frame_seal.h).
 *
 * Frames come from outside: frame_decode() accepts only frames that a correct peer can send.
 *
 * FRAME_VERSION is the version of the whole link protocol. Raise it with every change of these
 * frames, of the messages that they carry (worker/device/tags.h), or of the bits that a step
 * computes: workers of one generation must compute the same.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define FRAME_MAGIC 0x6e726966u /* "firn" */
#ifndef FRAME_VERSION           /* a test builds a worker with another version */
#define FRAME_VERSION 16
#endif
#define FRAME_HEADER_SIZE 40
#define FRAME_SEGMENT_MAX (1u << 20)
#define FRAME_SMALL_MAX   255 /* payload of every frame that is not a segment of a message */

#define FRAME_HELLO_SIZE     100 /* challenge, wanted rank, job (handshake.c) */
#define FRAME_CHALLENGE_SIZE 32
#define FRAME_PROOF_SIZE     32

enum frame_type {
    FRAME_HELLO = 1, /* connector: own rank, wanted rank, own challenge */
    FRAME_CHALLENGE, /* acceptor: my challenge */
    FRAME_PROOF,     /* both ends, the connector first: the keyed hash over both challenges */
    FRAME_REFUSED,   /* acceptor: retry later; tag: HANDSHAKE_COME_AGAIN */
    FRAME_CREDIT,    /* the peer may send `size` bytes more without an OFFER */
    FRAME_DATA,   /* opens a message with `tag` of `size` bytes; the first segment is the payload */
    FRAME_OFFER,  /* a message with `tag` of `size` bytes waits here */
    FRAME_ACCEPT, /* send the tag-th message that you offered */
    FRAME_DELIVERY, /* as DATA, of the tag-th offered message */
    FRAME_PART,     /* the next segment of the open message */
    FRAME_HEARTBEAT,
    FRAME_FAULT, /* the sender's mesh has failed; the payload is the reason, as text */
    FRAME_BYE,   /* the sender leaves and receives no more messages */
    FRAME_TYPE_END,
};

struct frame {
    enum frame_type type;
    uint32_t source;
    uint32_t length; /* of the payload behind this header */
    uint64_t generation;
    uint64_t tag;
    uint64_t size;
};

void frame_encode(const struct frame *frame, uint8_t ret_header[FRAME_HEADER_SIZE]);

/** frame_version() - return the version of this program's link protocol: FRAME_VERSION */
unsigned frame_version(void);

/** frame_decode() - decode a header. Return: 0, or -EPROTO: not a frame of this version, or values
 * that its type forbids */
int frame_decode(const uint8_t header[FRAME_HEADER_SIZE], struct frame *ret_frame) CHECK_RESULT;
