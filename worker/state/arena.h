/*
 * The device memory of a generation: activations, gradients, what comes from others. One
 * allocation, of the size that worker/step/memory.c counts, handed out in parts.
 *
 * Problem: taking memory of a GPU and giving it back makes the device stand still, takes
 * milliseconds for each part, and may fail half-way. Design: arena_begin() makes sure of all of it
 * at once, arena_take() only counts, arena_end() gives all parts back together. What is held stays
 * for the next generation, or for the engine that a freeze makes anew, unless that needs more: then
 * it goes back first, so that at no time two are there.
 *
 * Fresh pages of the host cost as much as computing on them for a while, so memory of the host is
 * held as well; but the pages beyond the need go back to the system, for it is everybody's, and a
 * plan has counted no more (elastic/planner/process_memory.h). Under the address sanitizer each
 * part of it is an allocation of its own, whose ends are watched. So is a part that was not
 * counted.
 */
#pragma once

#include "kernels/kernel.h"

struct arena;

/** arena_new() - empty; @device is borrowed. -ENOMEM */
int arena_new(const struct kernel *kernel, struct kernel_device *device,
              struct arena **ret_arena) CHECK_RESULT;
/** arena_free() - with all parts; NULL allowed */
void arena_free(struct arena *arena);

/** arena_part_bytes() - what a part of @size_bytes takes of the arena; SIZE_MAX stays what it is */
size_t arena_part_bytes(size_t size_bytes);

/** arena_reserve() - hold @size_bytes, all pages there, before a generation begins; no part is in
 * use. 0; -ENOMEM: nothing is held */
int arena_reserve(struct arena *arena, size_t size_bytes, struct error *error) CHECK_RESULT;
/**
 * arena_begin() - parts of @size_bytes in all will be wanted; zeroed, on all queues of the device
 *
 * No part is in use. Waits for the device.
 * Return: 0; -ENOMEM: nothing is held; others: the device has failed
 */
int arena_begin(struct arena *arena, size_t size_bytes, struct error *error) CHECK_RESULT;
/** arena_take() - a zeroed part, until arena_end(). 0, -ENOMEM */
int arena_take(struct arena *arena, size_t size_bytes, void **ret_memory) CHECK_RESULT;
/** arena_end() - all parts are given back; nothing of the device's queues uses them any more */
void arena_end(struct arena *arena);

/** arena_held_bytes() - what it keeps of the device, whether or not parts are in use */
size_t arena_held_bytes(const struct arena *arena);
/** arena_room_bytes() - up to where it can hold more without a second allocation */
size_t arena_room_bytes(const struct arena *arena);
/** arena_drop() - keep nothing; no part is in use */
void arena_drop(struct arena *arena);
