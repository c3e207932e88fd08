/*
 * Which carrier a route of tensors gets, agreed among its members.
 *
 * Every member says what it brings; all see the same offers in the same order, so all choose alike
 * without another word. It is NCCL when all members have it in one version, each with a GPU of its
 * own: NCCL refuses two ranks on one GPU. Otherwise tensors go over the mesh. Bits do not depend on
 * it.
 */
#pragma once

#include "base/error.h"
#include "comm/mesh/mesh.h"

#define CARRIER_GPU_SIZE 16
#define CARRIER_WHY_SIZE 160

struct carrier_offer {
    unsigned nccl_version;         /* 0: it cannot use NCCL */
    uint8_t gpu[CARRIER_GPU_SIZE]; /* UUID */
    bool digests;                  /* it wants what NCCL moves compared (carrier_digest.h) */
};

/* Who is on a route; the same on all of them, but for @self. */
struct carrier_group {
    struct mesh *mesh;     /* borrowed */
    const unsigned *ranks; /* member -> rank in the generation; the mesh links all of them */
    unsigned member_count, self;
    uint64_t tag; /* of the messages by which they agree: nothing else may use it */
};

/**
 * carrier_choose() - whether @offers, of the members of a route, make NCCL its carrier
 * @ret_why: which member stands in the way, "member 2 has no NCCL"; "" where none does
 */
bool carrier_choose(const struct carrier_offer *offers, unsigned member_count,
                    char ret_why[CARRIER_WHY_SIZE]);

/**
 * carrier_agree() - tell the others of @mine and hear theirs: is it NCCL?
 *
 * @ret_digests: whether a member wants digests; every member hears the same
 *
 * Waits for members that come late as long as the mesh is whole. When it returns all have called
 * it. Return: 1: NCCL; 0: the mesh, and why; -ECONNRESET, -ENOMEM
 */
int carrier_agree(const struct carrier_group *group, const struct carrier_offer *mine,
                  bool *ret_digests, char ret_why[CARRIER_WHY_SIZE]) CHECK_RESULT;
