#include "worker/nccl_use.h"

#include <stdlib.h>

#include "base/log.h"

_Static_assert(KERNEL_UUID_SIZE == CARRIER_GPU_SIZE, "a device's name is an offer's");

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
