#include "worker/device/host_copy.h"

#include <errno.h>
#include <string.h>

int host_copy_init(struct host_copy *copy, struct pinned *pool, void *on_device, size_t size_bytes,
                   bool direct)
{
    const struct kernel *kernel = pinned_kernel(pool);
    struct kernel_device *device = pinned_device(pool);

    *copy = (struct host_copy){.pool = pool,
                               .kernel = kernel,
                               .device = device,
                               .on_device = on_device,
                               .on_host = on_device,
                               .size_bytes = size_bytes};
    if (direct || kernel->host_memory)
        return 0;
    copy->on_host = NULL;
    if (pinned_take(pool, size_bytes, &copy->on_host) || kernel->event_new(device, &copy->used) ||
        kernel->event_new(device, &copy->moved)) {
        host_copy_done(copy);
        return -ENOMEM;
    }
    return 0;
}

void host_copy_done(struct host_copy *copy)
{
    if (!host_copy_is_direct(copy)) {
        if (copy->moved)
            host_copy_wait(copy);
        copy->kernel->event_free(copy->device, copy->used);
        copy->kernel->event_free(copy->device, copy->moved);
        pinned_give(copy->pool, copy->on_host);
    }
    memset(copy, 0, sizeof(*copy));
}

/* Copy on the communication queue, once the compute queue has reached `used`. */
static void move(struct host_copy *copy, void *to, const void *from)
{
    copy->kernel->queue_wait(copy->device, KERNEL_QUEUE_COMMUNICATION, copy->used);
    copy->kernel->transfer(copy->device, KERNEL_QUEUE_COMMUNICATION, to, from, copy->size_bytes);
    copy->kernel->event_record(copy->device, copy->moved, KERNEL_QUEUE_COMMUNICATION);
}

void host_copy_fetch(struct host_copy *copy)
{
    if (host_copy_is_direct(copy))
        return;
    host_copy_used(copy);
    move(copy, copy->on_host, copy->on_device);
}

void host_copy_used(struct host_copy *copy)
{
    if (!host_copy_is_direct(copy))
        copy->kernel->event_record(copy->device, copy->used, KERNEL_QUEUE_COMPUTE);
}

void host_copy_store(struct host_copy *copy)
{
    if (host_copy_is_direct(copy))
        return;
    move(copy, copy->on_device, copy->on_host);
    copy->kernel->queue_wait(copy->device, KERNEL_QUEUE_COMPUTE, copy->moved);
}

bool host_copy_passed(const struct host_copy *copy)
{
    return host_copy_is_direct(copy) || copy->kernel->event_passed(copy->device, copy->moved);
}

void host_copy_wait(const struct host_copy *copy)
{
    if (!host_copy_is_direct(copy))
        copy->kernel->event_wait(copy->device, copy->moved);
}
