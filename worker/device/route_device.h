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
    struct kernel_event *read;     /* what route_device_read() waits for */
};

/** route_device_init() - @route stays where it is from now on. 0, -ENOMEM */
int route_device_init(struct route_device *route, const struct kernel *kernel,
                      struct kernel_device *device, enum kernel_queue queue) CHECK_RESULT;
/** route_device_done() - after its carrier; zeroed memory is allowed */
void route_device_done(struct route_device *route);
/** route_device_read() - from the device into memory of the host; @context: a struct route_device
 *
 * Waits for what has been given to the compute queue, which must not wait for a message. */
void route_device_read(void *context, void *host, const void *device_data, size_t size_bytes);
struct carrier_device route_device_table(struct route_device *route);
