/*
 * Queues and events of the CPU, which never wait: a call on the CPU has finished when it
 * returns, so every event has passed, and a transfer is a copy.
 */
#include <errno.h>
#include <stdio.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/team.h"

struct kernel_event {
    unsigned records; /* number of recordings: for a debugger */
};

int device_event_new(struct kernel_device *device, struct kernel_event **ret_event)
{
    struct kernel_event *event = calloc(1, sizeof(*event));
    (void)device;
    if (!event)
        return -ENOMEM;
    *ret_event = event;
    return 0;
}

void device_event_free(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    free(event);
}

void device_event_record(struct kernel_device *device, struct kernel_event *event,
                         enum kernel_queue queue)
{
    (void)device;
    (void)queue;
    event->records++;
}

void device_queue_wait(struct kernel_device *device, enum kernel_queue queue,
                       struct kernel_event *event)
{
    (void)device;
    (void)queue;
    (void)event;
}

bool device_event_passed(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    (void)event;
    return true;
}

void device_event_wait(struct kernel_device *device, struct kernel_event *event)
{
    (void)device;
    (void)event;
}

void device_transfer(struct kernel_device *device, enum kernel_queue queue, void *to,
                     const void *from, size_t size_bytes)
{
    (void)queue;
    device_copy(device, to, from, size_bytes);
}

void *device_stream_none(struct kernel_device *device, enum kernel_queue queue)
{
    (void)device;
    (void)queue;
    return NULL;
}

bool device_uuid_none(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE])
{
    (void)device;
    (void)ret_uuid;
    return false;
}

int device_attention_prepare(struct kernel_device *device, struct kernel_attention shape)
{
    (void)device;
    (void)shape;
    return 0;
}

void device_describe(struct kernel_device *device, char *ret_text, size_t size)
{
    snprintf(ret_text, size, "cpu slot of %u threads\n", team_size(device->team));
}
