#include "worker/device/route_device.h"

int route_device_init(struct route_device *route, const struct kernel *kernel,
                      struct kernel_device *device, enum kernel_queue queue)
{
    *route = (struct route_device){.kernel = kernel, .device = device, .queue = queue};
    int status = kernel->event_new(device, &route->computed);
    if (!status)
        status = kernel->event_new(device, &route->read);
    return status ? status : kernel->allocate(device, CARRIER_SCRATCH_BYTES, &route->scratch);
}

void route_device_done(struct route_device *route)
{
    if (route->kernel) {
        route->kernel->event_free(route->device, route->computed);
        route->kernel->event_free(route->device, route->read);
        route->kernel->release(route->device, route->scratch);
    }
    *route = (struct route_device){0};
}

static void follow(void *context, void *stream)
{
    struct route_device *route = context;
    (void)stream;
    route->kernel->event_record(route->device, route->computed, KERNEL_QUEUE_COMPUTE);
    route->kernel->queue_wait(route->device, route->queue, route->computed);
}

static int mark_new(void *context, void **ret_mark)
{
    struct route_device *route = context;
    struct kernel_event *event;
    int status = route->kernel->event_new(route->device, &event);
    if (!status)
        *ret_mark = event;
    return status;
}

static void mark_set(void *context, void *mark, void *stream)
{
    struct route_device *route = context;
    (void)stream;
    route->kernel->event_record(route->device, mark, route->queue);
}

static bool mark_passed(void *context, void *mark)
{
    struct route_device *route = context;
    return route->kernel->event_passed(route->device, mark);
}

static void mark_precede(void *context, void *mark)
{
    struct route_device *route = context;
    route->kernel->queue_wait(route->device, KERNEL_QUEUE_COMPUTE, mark);
}

static void mark_free(void *context, void *mark)
{
    struct route_device *route = context;
    route->kernel->event_free(route->device, mark);
}

void route_device_read(void *context, void *host, const void *device_data, size_t size_bytes)
{
    struct route_device *route = context;

    route->kernel->download(route->device, host, device_data, size_bytes);
    route->kernel->event_record(route->device, route->read, KERNEL_QUEUE_COMPUTE);
    route->kernel->event_wait(route->device, route->read);
}

struct carrier_device route_device_table(struct route_device *route)
{
    return (struct carrier_device){
        .context = route,
        .scratch = route->scratch,
        .stream = route->kernel->stream(route->device, route->queue),
        .follow = follow,
        .mark_new = mark_new,
        .mark_set = mark_set,
        .mark_passed = mark_passed,
        .mark_precede = mark_precede,
        .mark_free = mark_free,
    };
}
