/*
 * The device memory of a generation: activations, gradients, receive buffers. One allocation, of
 * the size that worker/step/memory.c counts, handed out in parts.
 *
 * Problem: allocating and freeing GPU memory stops the device, takes milliseconds for each part,
 * and may fail half-way. Design: arena_begin() allocates all of it at once, arena_take() only
 * counts, arena_end() returns all parts together. The allocation is kept for the next generation,
 * or for the new engine after a freeze. If that needs more, the old allocation is freed first, so
 * two never exist at the same time.
 *
 * Device memory is zeroed for each generation: zeroing takes a millisecond per gigabyte, and the
 * device's libraries may read beyond the written bytes. Host memory is not zeroed: it takes 150
 * times as long, in the pause between two generations. So no code may read a part of host memory
 * before writing it (tests/engine/test_dirty_memory.c).
 *
 * Fresh host pages cost as much as computing on them for a while, so host memory is kept as well;
 * but pages beyond the need go back to the system, because all processes share host memory and the
 * plan has counted no more (elastic/planner/process_memory.h). Under the address sanitizer each
 * part of host memory is an allocation of its own, so that its bounds are checked. A part that was
 * not counted is an allocation of its own, too.
 */
#pragma once

#include "kernels/kernel.h"

struct arena;

/** arena_new() - create an empty arena; @device is borrowed. -ENOMEM */
int arena_new(const struct kernel *kernel, struct kernel_device *device,
              struct arena **ret_arena) CHECK_RESULT;
/** arena_free() - free the arena and all parts; NULL allowed */
void arena_free(struct arena *arena);

/** arena_part_bytes() - return the arena bytes of a part of @size_bytes; SIZE_MAX for SIZE_MAX */
size_t arena_part_bytes(size_t size_bytes);

/** arena_reserve() - allocate @size_bytes with all pages before a generation begins; no part is in
 * use
 *
 * Return: 0; -ENOMEM: nothing is held */
int arena_reserve(struct arena *arena, size_t size_bytes, struct error *error) CHECK_RESULT;
/** arena_extend() - make room for the next generation, with all pages, while parts are in use. Only
 * host memory that can grow in place is extended; otherwise the call does nothing
 * @device: of the arena's kernel and of the calling thread; another thread may own the parts as
 * long as no part is taken or returned
 *
 * Return: 0; -ENOMEM */
int arena_extend(struct arena *arena, struct kernel_device *device, size_t size_bytes,
                 struct error *error) CHECK_RESULT;
/**
 * arena_begin() - make @size_bytes available for parts; on a device zeroed for all of its queues
 *
 * No part is in use except those that arena_end_at() left, which @size_bytes includes. Waits for
 * the device.
 * Return: 0; -ENOMEM: nothing is held; others: the device has failed
 */
int arena_begin(struct arena *arena, size_t size_bytes, struct error *error) CHECK_RESULT;
/** arena_take() - hand out a part, valid until arena_end(): zeroed on a device, uninitialized on
 * the host. 0, -ENOMEM */
int arena_take(struct arena *arena, size_t size_bytes, void **ret_memory) CHECK_RESULT;
/** arena_end() - take back all parts; no queue of the device uses them any more */
void arena_end(struct arena *arena);

/* A number of parts, from the first one. */
struct arena_mark {
    size_t used_bytes;
    unsigned apart_count;
};

/** arena_mark() - mark the parts handed out so far */
struct arena_mark arena_mark(const struct arena *arena);
/** arena_end_at() - take back the parts after @mark; the parts before it stay unchanged, even in
 * the next arena_begin() if arena_fits() */
void arena_end_at(struct arena *arena, struct arena_mark mark);

/** arena_held_bytes() - return the bytes that the arena holds, whether or not parts are in use */
size_t arena_held_bytes(const struct arena *arena);
/** arena_room_bytes() - return the bytes that the arena can hold without a second allocation */
size_t arena_room_bytes(const struct arena *arena);
/** arena_fits() - true if arena_begin() of @size_bytes keeps the memory in its place */
bool arena_fits(const struct arena *arena, size_t size_bytes);
/** arena_drop() - free the memory; no part is in use */
void arena_drop(struct arena *arena);
