/*
 * Whether this worker moves tensors with NCCL: found out when its device is open, and given up for
 * good when joining the others has failed, so that the next generation does not fail the same way.
 */
#pragma once

#include "comm/carrier/carrier_choice.h"
#include "comm/carrier/nccl.h"
#include "kernels/kernel.h"

struct nccl_use {
    struct nccl_library *library; /* NULL: there is none */
    struct carrier_offer offer;   /* no version: it does not, or not any more */
};

/**
 * nccl_use_init() - look for the library: where FIRN_NCCL_LIBRARY says (empty: nowhere), else where
 * the system looks for libraries. A CPU slot does not look. What stands in the way is logged.
 */
void nccl_use_init(struct nccl_use *use, const struct kernel *kernel, struct kernel_device *device);
/** nccl_use_is_offered() - to the next generation */
static inline bool nccl_use_is_offered(const struct nccl_use *use)
{
    return use->offer.nccl_version != 0;
}
/** nccl_use_done() - after the routes; zeroed memory is allowed */
void nccl_use_done(struct nccl_use *use);
/** nccl_use_give_up() - until this process ends */
void nccl_use_give_up(struct nccl_use *use, const char *reason);
