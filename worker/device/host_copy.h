/*
 * A device buffer and its copy in host memory, for data that leaves or enters the device: over
 * links, or for sums made on the host.
 *
 * If device memory is host memory, the two are the same buffer, and every call here does nothing.
 * Otherwise the host buffer is pinned, and copies run on the communication queue beside the compute
 * queue:
 *
 *     fetch   device to host, after all computations queued so far
 *     used    the last computation that reads the device buffer as it is has been queued
 *     store   host to device, after `used`; computations queued later read the new data
 *
 * A copy in flight owns the host buffer: wait before reading or writing it.
 */
#pragma once

#include "worker/device/pinned.h"

struct host_copy {
    struct pinned *pool;         /* NULL: not initialized */
    const struct kernel *kernel; /* of the pool; the device too */
    struct kernel_device *device;
    void *on_device, *on_host;
    size_t size_bytes;
    struct kernel_event *used, *moved; /* NULL if the two buffers are the same */
};

/**
 * host_copy_init() - prepare copies of @on_device, which is borrowed, to a host buffer of @pool
 * @direct: without a host buffer
 *
 * Return: 0; -ENOMEM: @copy is left as by host_copy_done()
 */
int host_copy_init(struct host_copy *copy, struct pinned *pool, void *on_device, size_t size_bytes,
                   bool direct) CHECK_RESULT;
/** host_copy_done() - wait for a copy in flight and release; zeroed memory is allowed */
void host_copy_done(struct host_copy *copy);

/** host_copy_is_direct() - true if both buffers are the same */
static inline bool host_copy_is_direct(const struct host_copy *copy)
{
    return copy->on_host == copy->on_device;
}

void host_copy_fetch(struct host_copy *copy);
void host_copy_used(struct host_copy *copy);
void host_copy_store(struct host_copy *copy);

/** host_copy_passed(), host_copy_wait() - poll or wait for the end of the last fetch or store; true
 * before the first */
bool host_copy_passed(const struct host_copy *copy);
void host_copy_wait(const struct host_copy *copy);
