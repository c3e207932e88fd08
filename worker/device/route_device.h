/* One queue of a device as a carrier wants it (struct carrier_device of
 * comm/carrier/carrier_nccl.h). */
#pragma once

#include "comm/carrier/carrier_nccl.h"
#include "kernels/kernel.h"

struct route_device {
    const struct kernel *kernel; /* borrowed */
    struct kernel_device *device;
    enum kernel_queue queue;
    struct kernel_event *computed; /* what the route's next group follows */
};

/** route_device_init() - @route stays where it is from now on. 0, -ENOMEM */
int route_device_init(struct route_device *route, const struct kernel *kernel,
                      struct kernel_device *device, enum kernel_queue queue) CHECK_RESULT;
/** route_device_done() - after its carrier; zeroed memory is allowed */
void route_device_done(struct route_device *route);
struct carrier_device route_device_table(struct route_device *route);
