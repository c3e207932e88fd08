#include "comm/carrier/carrier_choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define OFFER_SIZE (4 + CARRIER_GPU_SIZE)
/* A flag in the version: workers that do not know digests see another version, and tensors then go
 * over the links, which are sealed. */
#define OFFER_DIGESTS (1u << 31)

bool carrier_choose(const struct carrier_offer *offers, unsigned member_count,
                    char ret_why[CARRIER_WHY_SIZE])
{
    ret_why[0] = '\0';
    for (unsigned i = 0; i < member_count && !ret_why[0]; i++) {
        if (!offers[i].nccl_version)
            snprintf(ret_why, CARRIER_WHY_SIZE, "member %u does not use NCCL", i);
        else if (offers[i].nccl_version != offers[0].nccl_version)
            snprintf(ret_why, CARRIER_WHY_SIZE, "member 0 has NCCL %u, member %u has %u",
                     offers[0].nccl_version, i, offers[i].nccl_version);
        for (unsigned k = 0; k < i && !ret_why[0]; k++)
            if (!memcmp(offers[i].gpu, offers[k].gpu, CARRIER_GPU_SIZE))
                snprintf(ret_why, CARRIER_WHY_SIZE, "members %u and %u share a GPU", k, i);
    }
    return member_count > 0 && !ret_why[0];
}

static void pack(const struct carrier_offer *offer, uint8_t ret_bytes[OFFER_SIZE])
{
    bytes_put_u32(ret_bytes, offer->nccl_version |
                                 (offer->digests && offer->nccl_version ? OFFER_DIGESTS : 0));
    memcpy(ret_bytes + 4, offer->gpu, CARRIER_GPU_SIZE);
}

static void unpack(const uint8_t bytes[OFFER_SIZE], struct carrier_offer *ret_offer)
{
    ret_offer->nccl_version = bytes_get_u32(bytes) & ~OFFER_DIGESTS;
    ret_offer->digests = bytes_get_u32(bytes) & OFFER_DIGESTS;
    memcpy(ret_offer->gpu, bytes + 4, CARRIER_GPU_SIZE);
}

static int tell(const struct carrier_group *group, const struct carrier_offer *mine)
{
    uint8_t bytes[OFFER_SIZE];
    int status = 0;

    pack(mine, bytes);
    for (unsigned i = 0; i < group->member_count && !status; i++)
        if (i != group->self)
            status =
                mesh_send(group->mesh, group->ranks[i], group->tag, bytes, sizeof(bytes), NULL);
    return status;
}

static int hear(const struct carrier_group *group, unsigned member, struct carrier_offer *ret_offer)
{
    uint8_t bytes[OFFER_SIZE];
    struct mesh_request *request;
    int status =
        mesh_receive(group->mesh, group->ranks[member], group->tag, bytes, sizeof(bytes), &request);

    if (!status)
        status = mesh_wait(request, UINT64_MAX);
    if (!status)
        unpack(bytes, ret_offer);
    return status;
}

int carrier_agree(const struct carrier_group *group, const struct carrier_offer *mine,
                  bool *ret_digests, char ret_why[CARRIER_WHY_SIZE])
{
    struct carrier_offer *offers = calloc(group->member_count, sizeof(*offers));
    int status = offers ? tell(group, mine) : -ENOMEM;

    for (unsigned i = 0; i < group->member_count && !status; i++)
        if (i == group->self)
            offers[i] = *mine;
        else
            status = hear(group, i, &offers[i]);
    if (!status)
        status = carrier_choose(offers, group->member_count, ret_why);
    *ret_digests = false;
    for (unsigned i = 0; i < group->member_count && status > 0; i++)
        *ret_digests |= offers[i].digests;
    free(offers);
    return status;
}
