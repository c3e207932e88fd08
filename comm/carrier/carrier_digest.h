/*
 * A carrier of device memory whose moves are checked: both ends keep a digest of all moves between
 * them, and compare the digests over the sealed links of the mesh (comm/mesh/frame_seal.h).
 *
 * A send's digest is taken when it is posted, a receive's when it is waited for: the data is copied
 * to host memory and hashed there (XXH3-128, with the number of the move between the two ranks in
 * that direction). So a post waits until the device has computed the data, this carrier has no
 * precede(), and each byte is copied to the host once at either end.
 *
 * A difference fails the mesh, and with it the generation, like a byte that is changed on a link.
 */
#pragma once

#include "base/error.h"
#include "comm/carrier/carrier.h"
#include "comm/carrier/carrier_choice.h"

struct carrier_digest_options {
    struct carrier *carrier;    /* owned after success: freed with this carrier */
    struct carrier_group group; /* its members; ranks are copied, the tag is not used */
    /* @host is filled when it returns; called under the carrier's guard */
    void (*read)(void *context, void *host, const void *device_data, size_t size_bytes);
    void *context;
};

/** carrier_digest_new() - make the carrier. Return: 0, -ENOMEM */
int carrier_digest_new(const struct carrier_digest_options *options,
                       struct carrier **ret_carrier) CHECK_RESULT;

/**
 * carrier_digest_tell() - send the digests so far to every member with which moves were exchanged,
 * after waiting for moves that are still in flight
 * @tag: the same at both ends, unique for each call
 *
 * carrier_digest_compare() - receive the members' digests and compare them; call it after
 * carrier_digest_tell() of all carriers
 *
 * Return: 0; -ECONNRESET (the mesh has failed, by a difference or otherwise), -ETIMEDOUT
 */
int carrier_digest_tell(struct carrier *carrier, uint64_t tag) CHECK_RESULT;
int carrier_digest_compare(struct carrier *carrier, uint64_t tag) CHECK_RESULT;
