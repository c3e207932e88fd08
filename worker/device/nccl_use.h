/*
 * Decide whether this worker moves tensors with NCCL: once its device is open, and never again
 * after joining the others has failed, so that the next generation does not fail the same way.
 */
#pragma once

#include "comm/carrier/carrier_choice.h"
#include "comm/carrier/nccl.h"
#include "kernels/kernel.h"

struct nccl_use {
    struct nccl_library *library; /* NULL: none */
    struct carrier_offer offer;   /* without a version: NCCL is not offered, or no longer */
};

/**
 * nccl_use_init() - load the library from the path in FIRN_NCCL_LIBRARY (empty: do not load it),
 * else from the library path of the system. A CPU slot loads nothing. Obstacles are logged.
 */
void nccl_use_init(struct nccl_use *use, const struct kernel *kernel, struct kernel_device *device);
/** nccl_use_is_offered() - true if this worker offers NCCL to the next generation */
static inline bool nccl_use_is_offered(const struct nccl_use *use)
{
    return use->offer.nccl_version != 0;
}
/** nccl_use_done() - unload, after the routes; zeroed memory is allowed */
void nccl_use_done(struct nccl_use *use);
/** nccl_use_give_up() - stop offering NCCL until this process ends */
void nccl_use_give_up(struct nccl_use *use, const char *reason);
