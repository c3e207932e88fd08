#include "worker/checkpoint/share_copy.h"

#include <errno.h>

#define ALIGNMENT_BYTES 64
#define PIECE_BYTES     ((size_t)8 << 20)

struct share_copy {
    const struct kernel *kernel;
    struct kernel_device *device;
    struct kernel_event *boundary, *copied;
    char *memory; /* pinned */
    size_t size_bytes, used_bytes;
};

int share_copy_new(const struct kernel *kernel, struct kernel_device *device,
                   struct share_copy **ret_copy)
{
    struct share_copy *copy = calloc(1, sizeof(*copy));

    if (!copy)
        return -ENOMEM;
    *copy = (struct share_copy){.kernel = kernel, .device = device};
    if (kernel->event_new(device, &copy->boundary) || kernel->event_new(device, &copy->copied)) {
        share_copy_free(copy);
        return -ENOMEM;
    }
    *ret_copy = copy;
    return 0;
}

void share_copy_free(struct share_copy *copy)
{
    if (!copy)
        return;
    if (copy->copied)
        share_copy_wait(copy);
    copy->kernel->event_free(copy->device, copy->boundary);
    copy->kernel->event_free(copy->device, copy->copied);
    if (copy->memory)
        copy->kernel->host_release(copy->device, copy->memory);
    free(copy);
}

static size_t room_for(size_t size_bytes, unsigned tensor_count)
{
    return size_bytes + (size_t)tensor_count * ALIGNMENT_BYTES;
}

bool share_copy_fits(const struct share_copy *copy, size_t size_bytes, unsigned tensor_count)
{
    return room_for(size_bytes, tensor_count) <= copy->size_bytes;
}

int share_copy_reserve(struct share_copy *copy, size_t size_bytes, unsigned tensor_count)
{
    if (share_copy_fits(copy, size_bytes, tensor_count))
        return 0;
    share_copy_wait(copy);
    if (copy->memory)
        copy->kernel->host_release(copy->device, copy->memory);
    copy->memory = NULL;
    copy->size_bytes = copy->used_bytes = 0;
    if (copy->kernel->host_allocate(copy->device, room_for(size_bytes, tensor_count),
                                    (void **)&copy->memory))
        return -ENOMEM;
    copy->size_bytes = room_for(size_bytes, tensor_count);
    return 0;
}

void share_copy_begin(struct share_copy *copy)
{
    copy->used_bytes = 0;
    copy->kernel->event_record(copy->device, copy->boundary, KERNEL_QUEUE_COMPUTE);
    copy->kernel->queue_wait(copy->device, KERNEL_QUEUE_COPY, copy->boundary);
}

const float *share_copy_add(struct share_copy *copy, const float *on_device, size_t count)
{
    size_t size_bytes = count * sizeof(float);
    size_t whole_bytes = (size_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    char *place = copy->memory + copy->used_bytes;

    if (whole_bytes > copy->size_bytes - copy->used_bytes)
        return NULL;
    for (size_t done = 0; done < size_bytes; done += PIECE_BYTES)
        copy->kernel->transfer(copy->device, KERNEL_QUEUE_COPY, place + done,
                               (const char *)on_device + done, MIN(size_bytes - done, PIECE_BYTES));
    copy->used_bytes += whole_bytes;
    return (const float *)(const void *)place;
}

void share_copy_end(struct share_copy *copy)
{
    copy->kernel->event_record(copy->device, copy->copied, KERNEL_QUEUE_COPY);
}

bool share_copy_passed(const struct share_copy *copy)
{
    return copy->kernel->event_passed(copy->device, copy->copied);
}

void share_copy_wait(const struct share_copy *copy)
{
    copy->kernel->event_wait(copy->device, copy->copied);
}
