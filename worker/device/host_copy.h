/*
 * A buffer of the device and its place in the memory of the host, for whatever leaves the device or
 * comes to it from elsewhere: links, sums that are made on the host.
 *
 * Where the device's memory is the host's the two are one, and every call here is nothing.
 * Elsewhere the place is pinned, and copies run on the communication queue beside what computes:
 *
 *     fetch   device to host, after all that was computed so far
 *     used    what was computed so far is the last that needs the device's buffer as it is
 *     store   host to device, after `used`; what is computed later finds it there
 *
 * A copy that is under way owns the host's place: wait before it is read or written.
 */
#pragma once

#include "worker/device/pinned.h"

struct host_copy {
    struct pinned *pool;         /* NULL: not initialized */
    const struct kernel *kernel; /* of the pool, like the device */
    struct kernel_device *device;
    void *on_device, *on_host;
    size_t size_bytes;
    struct kernel_event *used, *moved; /* NULL where there is one memory */
};

/** host_copy_init() - @on_device is borrowed; @direct: no place on the host is wanted; else it is
 * @pool's. -ENOMEM: @copy is as host_copy_done() leaves it */
int host_copy_init(struct host_copy *copy, struct pinned *pool, void *on_device, size_t size_bytes,
                   bool direct) CHECK_RESULT;
/** host_copy_done() - waits for a copy that is under way; zeroed memory is allowed */
void host_copy_done(struct host_copy *copy);

/** host_copy_is_direct() - there is one memory */
static inline bool host_copy_is_direct(const struct host_copy *copy)
{
    return copy->on_host == copy->on_device;
}

void host_copy_fetch(struct host_copy *copy);
void host_copy_used(struct host_copy *copy);
void host_copy_store(struct host_copy *copy);

/** host_copy_passed(), host_copy_wait() - the last fetch or store is over; true before the first */
bool host_copy_passed(const struct host_copy *copy);
void host_copy_wait(const struct host_copy *copy);
