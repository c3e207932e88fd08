/*
 * Compute and check the tags of frames, so that every frame arrives unchanged, in order, once.
 *
 * Problem: TCP's checksum misses one damaged segment in 65,536, and a man in the middle can change
 * bytes at will. One wrong bit of a gradient changes the run. Design: each direction of a link has
 * a key of its own, derived from the generation's key and both challenges of the handshake
 * (comm/mesh/handshake.h). Headers and payloads are sealed one after another with AES-256-GCM's
 * authentication alone (GMAC, NIST SP 800-38D), whose nonce is the number of the seal. So a
 * changed, dropped, repeated or reordered byte gives another tag. Nothing is encrypted, so messages
 * are sent and received without a copy.
 *
 * A key is used for one link, and the counter cannot wrap: 2^64 seals.
 *
 * On a link within one node (local.h), or where an operator trusts the network and saves processor
 * time (`link_seals: checksums`), a tag is the CRC32C of the key's first bytes, the number and the
 * data, at a sixth of the time. It detects errors of cables and switches, but not attacks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define FRAME_SEAL_KEY_SIZE 32
#define FRAME_SEAL_TAG_SIZE 16

struct frame_seal;

enum frame_seal_kind { SEAL_AUTHENTICATED, SEAL_CHECKSUMS };

/** frame_seal_new() - make the seal of one direction; the key is copied. -ENOMEM; -ENOTSUP:
 * libcrypto has no AES-GCM */
int frame_seal_new(enum frame_seal_kind kind, const uint8_t key[FRAME_SEAL_KEY_SIZE],
                   struct frame_seal **ret_seal) CHECK_RESULT;
void frame_seal_free(struct frame_seal *seal); /* NULL allowed */

/** frame_seal_begin(), frame_seal_add(), frame_seal_end() - compute the next tag in order, over all
 * bytes added; -EIO: libcrypto failed; close the link */
int frame_seal_begin(struct frame_seal *seal) CHECK_RESULT;
int frame_seal_add(struct frame_seal *seal, const void *data, size_t size_bytes) CHECK_RESULT;
int frame_seal_end(struct frame_seal *seal, uint8_t ret_tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;

/** frame_seal_make() - call begin, add and end for one buffer */
int frame_seal_make(struct frame_seal *seal, const void *data, size_t size_bytes,
                    uint8_t ret_tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;
/** frame_seal_check_end() - end as the receiver and compare; -EBADMSG: @tag differs */
int frame_seal_check_end(struct frame_seal *seal,
                         const uint8_t tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;
/** frame_seal_check() - check the tag of one whole buffer */
int frame_seal_check(struct frame_seal *seal, const void *data, size_t size_bytes,
                     const uint8_t tag[FRAME_SEAL_TAG_SIZE]) CHECK_RESULT;
