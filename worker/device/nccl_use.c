#include "worker/device/nccl_use.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

_Static_assert(KERNEL_UUID_SIZE == CARRIER_GPU_SIZE, "a device's name is an offer's");

/*
 * NCCL treats ranks with different NCCL_HOSTID as ranks on different hosts, and then lets them
 * share a GPU. The comparison of GPUs must do the same.
 */
static void count_host(struct carrier_offer *offer)
{
    const char *host = getenv("NCCL_HOSTID");
    struct hash128 hash = hash_xxh3(host ? host : "", host ? strlen(host) : 0);
    uint8_t bytes[CARRIER_GPU_SIZE];

    _Static_assert(sizeof(bytes) == sizeof(hash), "a host's name is as long as a GPU's");
    memcpy(bytes, &hash, sizeof(bytes));
    for (size_t i = 0; host && i < sizeof(bytes); i++)
        offer->gpu[i] ^= bytes[i];
}

void nccl_use_init(struct nccl_use *use, const struct kernel *kernel, struct kernel_device *device)
{
    const char *path = getenv("FIRN_NCCL_LIBRARY");
    struct error error = {0};

    *use = (struct nccl_use){0};
    if (kernel->host_memory || !kernel->uuid(device, use->offer.gpu) || (path && !path[0]))
        return;
    if (nccl_library_open(path ? path : NCCL_LIBRARY, &use->library, &error))
        log_info("no NCCL, tensors travel through the host: %s", error.text);
    else
        count_host(&use->offer);
    if (use->library)
        use->offer.nccl_version = nccl_library_version(use->library);
}

void nccl_use_done(struct nccl_use *use)
{
    nccl_library_close(use->library);
    *use = (struct nccl_use){0};
}

void nccl_use_give_up(struct nccl_use *use, const char *reason)
{
    use->offer.nccl_version = 0;
    log_warning("this worker uses NCCL no more, its tensors travel through the host: %s", reason);
}
