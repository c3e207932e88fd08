/* A device queue with the interface of a carrier (struct carrier_device of
 * comm/carrier/carrier_nccl.h). */
#pragma once

#include "comm/carrier/carrier_nccl.h"
#include "kernels/kernel.h"

struct route_device {
    const struct kernel *kernel; /* borrowed */
    struct kernel_device *device;
    enum kernel_queue queue;
    struct kernel_event *computed; /* the route's next group waits for it */
    struct kernel_event *read;     /* route_device_read() waits for it */
    void *scratch;                 /* of the carrier, on the device */
};

/** route_device_init() - prepare @route, which must not move from now on. 0, -ENOMEM */
int route_device_init(struct route_device *route, const struct kernel *kernel,
                      struct kernel_device *device, enum kernel_queue queue) CHECK_RESULT;
/** route_device_done() - release, after the carrier; zeroed memory is allowed */
void route_device_done(struct route_device *route);
/** route_device_read() - copy from the device to host memory; @context: a struct route_device
 *
 * Waits for the computations queued so far, which must not wait for a message. */
void route_device_read(void *context, void *host, const void *device_data, size_t size_bytes);
struct carrier_device route_device_table(struct route_device *route);
