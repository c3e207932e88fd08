/*
 * Tags of frames: what arrives is what was sent, in the same order, once.
 *
 * Problem: TCP's checksum misses one damaged segment in 65,536, and whoever sits on the way can
 * change bytes at will. One wrong bit of a gradient is another run. Design: each direction of a
 * link has a key of its own, derived from the generation's key and both challenges of the handshake
 * (comm/mesh/handshake.h). Headers and payloads are sealed one after another with AES-256-GCM's
 * authentication alone (GMAC, NIST SP 800-38D), whose nonce is the number of the seal. So a
 * changed, dropped, repeated or reordered byte gives another tag. Nothing is encrypted: a message
 * is sent from where it lies and received where it is wanted.
 *
 * A key is used for one link, and the counter cannot come round: 2^64 seals.
 *
 * Where an operator trusts the network and wants the processor's time back (`link_seals:
 * checksums`), a tag is the CRC32C of the key's begin, the number and the bytes: a sixth of the
 * time. It finds what cables and switches do, and nothing that somebody does on purpose.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define FRAME_SEAL_KEY_SIZE 32
#define FRAME_SEAL_TAG_SIZE 16

struct frame_seal;

enum frame_seal_kind { SEAL_AUTHENTICATED, SEAL_CHECKSUMS };

/** frame_seal_new() - of one direction; the key is copied. -ENOMEM; -ENOTSUP: libcrypto has no
 * AES-GCM */
int frame_seal_new(enum frame_seal_kind kind, const uint8_t key[FRAME_SEAL_KEY_SIZE],
                   struct frame_seal **ret_seal) CHECK_RESULT;
void frame_seal_free(struct frame_seal *seal); /* NULL allowed */

/** frame_seal_begin(), frame_seal_add(), frame_seal_end() - the next tag in order, over all bytes
 * added; -EIO: libcrypto failed, the link is good for nothing more */
int frame_seal_begin(struct frame_seal *seal) CHECK_RESULT;
int frame_seal_add(struct frame_seal *seal, const void *data, size_t size_bytes) CHECK_RESULT;
int frame_seal_end(struct frame_seal *seal, uint8_t ret_tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;

/** frame_seal_make() - the three in one */
int frame_seal_make(struct frame_seal *seal, const void *data, size_t size_bytes,
                    uint8_t ret_tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;
/** frame_seal_check_end() - frame_seal_end() of the receiver: -EBADMSG: @tag is another one */
int frame_seal_check_end(struct frame_seal *seal,
                         const uint8_t tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;
/** frame_seal_check() - of bytes that are all here */
int frame_seal_check(struct frame_seal *seal, const void *data, size_t size_bytes,
                     const uint8_t tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;
