/*
 * Choose the carrier of a route of tensors, in agreement with its members.
 *
 * Every member sends an offer. All members see the same offers in the same order, so all choose
 * alike without another message. The choice is NCCL when all members have it in one version, each
 * with a GPU of its own: NCCL refuses two ranks on one GPU. Otherwise tensors go over the mesh.
 * Results do not depend on the choice, to the bit.
 */
#pragma once

#include "base/error.h"
#include "comm/mesh/mesh.h"

#define CARRIER_GPU_SIZE 16
#define CARRIER_WHY_SIZE 160

struct carrier_offer {
    unsigned nccl_version;         /* 0: the member cannot use NCCL */
    uint8_t gpu[CARRIER_GPU_SIZE]; /* UUID */
    bool digests;                  /* the member wants digests of NCCL's moves compared
                                    * (carrier_digest.h) */
};

/* The members of a route; the same on all of them, except @self. */
struct carrier_group {
    struct mesh *mesh;     /* borrowed */
    const unsigned *ranks; /* member -> rank in the generation; the mesh links all of them */
    unsigned member_count, self;
    uint64_t tag; /* of the messages of the agreement; no other message may use it */
};

/**
 * carrier_choose() - return whether @offers, of the members of a route, make NCCL its carrier
 * @ret_why: the member that prevents NCCL, "member 2 has no NCCL"; "" if none does
 */
bool carrier_choose(const struct carrier_offer *offers, unsigned member_count,
                    char ret_why[CARRIER_WHY_SIZE]);

/**
 * carrier_agree() - exchange offers with the other members and choose
 *
 * @ret_digests: whether any member wants digests; the same on every member
 *
 * Waits for late members as long as the mesh has not failed. When it returns, all members have
 * called it. Return: 1: NCCL; 0: the mesh, with the reason in @ret_why; -ECONNRESET, -ENOMEM
 */
int carrier_agree(const struct carrier_group *group, const struct carrier_offer *mine,
                  bool *ret_digests, char ret_why[CARRIER_WHY_SIZE]) CHECK_RESULT;
