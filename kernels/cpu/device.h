/* The device of the CPU backend: one slot of a machine, a team of threads and their scratch. */
#pragma once

#include "kernels/kernel.h"

struct team;

/* A tile of attention scores: rows (queries) by columns (keys). Two tiles and one row's sums fit
 * into half of a 1 MiB L2 cache together with their keys and values. */
#define DEVICE_TILE_QUERIES 64
#define DEVICE_TILE_KEYS    256

struct device_scratch {
    float scores[DEVICE_TILE_QUERIES * DEVICE_TILE_KEYS];
    float gradients[DEVICE_TILE_QUERIES * DEVICE_TILE_KEYS];
} __attribute__((aligned(64)));

struct kernel_device {
    struct team *team;
    struct device_scratch *scratch; /* one per member of the team */
};

int device_open(const struct kernel_options *options, struct kernel_device **ret_device,
                struct error *error) CHECK_RESULT;
void device_close(struct kernel_device *device);
int device_allocate(struct kernel_device *device, size_t size_bytes,
                    void **ret_memory) CHECK_RESULT;
/* Leave both numbers unchanged: all processes share the host's memory. */
void device_memory(struct kernel_device *device, size_t *ret_free_bytes, size_t *ret_total_bytes);
void device_release(struct kernel_device *device, void *memory);
void device_copy(struct kernel_device *device, void *to, const void *from, size_t size_bytes);
void device_zero(struct kernel_device *device, void *memory, size_t size_bytes);
int device_synchronize(struct kernel_device *device, struct error *error) CHECK_RESULT;

/* device_queue.c: every call has finished when it returns, so queues are empty and events do
 * nothing. */
int device_event_new(struct kernel_device *device, struct kernel_event **ret_event) CHECK_RESULT;
void device_event_free(struct kernel_device *device, struct kernel_event *event);
void device_event_record(struct kernel_device *device, struct kernel_event *event,
                         enum kernel_queue queue);
void device_queue_wait(struct kernel_device *device, enum kernel_queue queue,
                       struct kernel_event *event);
bool device_event_passed(struct kernel_device *device, struct kernel_event *event);
void *device_stream_none(struct kernel_device *device, enum kernel_queue queue);
bool device_uuid_none(struct kernel_device *device, uint8_t ret_uuid[KERNEL_UUID_SIZE]);
void device_event_wait(struct kernel_device *device, struct kernel_event *event);
void device_transfer(struct kernel_device *device, enum kernel_queue queue, void *to,
                     const void *from, size_t size_bytes);
int device_attention_prepare(struct kernel_device *device, struct kernel_attention shape);
void device_describe(struct kernel_device *device, char *ret_text, size_t size);

/* Compute part of an operation: the items [begin, end) of its rows, columns or elements. */
typedef void (*device_share)(const void *context, size_t begin, size_t end,
                             struct device_scratch *scratch);

/**
 * device_for() - split the items [0, @count) among the threads of the device
 * @grain: shares begin at multiples of it; with fewer items than two grains the caller does all of
 * them
 *
 * Thread t of n gets the t-th of n equal runs of grains: a function of count and n alone.
 */
void device_for(struct kernel_device *device, size_t count, size_t grain, device_share share,
                const void *context);
