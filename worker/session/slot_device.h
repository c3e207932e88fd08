/* The device of a worker's slot: its kernels, its memory, NCCL, and the numerics it computes with.
 */
#pragma once

#include "kernels/kernel.h"
#include "worker/device/nccl_use.h"
#include "worker/device/numerics_log.h"
#include "worker/state/footprint.h"
#include "worker/step/warm_up.h"

struct slot_device {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct footprint footprint;
    struct nccl_use nccl;
    struct numerics_log numerics;
    struct warm_up warm;
    bool has_trained; /* a step of this process was committed with the algorithms it has chosen */
};
