/*
 * The emulator's device memory. As on a GPU, the host has no access to it, except while the device
 * works.
 *
 * Device memory lies in one reserved range of addresses. A `device_access` opens the range; without
 * one every access to it is a fault, so a program that uses a device pointer as its own dies at the
 * access. Freed addresses are never handed out again. Under the address sanitizer device memory is
 * the heap instead, whose bounds are checked more closely.
 */
#pragma once

#include <stddef.h>

/** device_memory_free() - Return the bytes that can still be allocated, and the total: the value of
 * EMULATOR_MEMORY_MIB in the environment, otherwise a TiB */
size_t device_memory_free(size_t *ret_total_bytes);
/** device_memory_take() - Allocate; nullptr when memory is exhausted */
void *device_memory_take(size_t size_bytes);
void device_memory_give(void *memory);
/** device_memory_has() - Return whether @memory lies on the device (on the heap unknown: false) */
bool device_memory_has(const void *memory);

/*
 * While a device_access exists the device works: on all of its memory, or only on the allocation at
 * @memory (on the host: nothing is opened), which is far quicker with many allocations. They nest.
 */
struct device_access {
    device_access();
    device_access(const void *memory, size_t size_bytes);
    ~device_access();
    device_access(const device_access &) = delete;
    device_access &operator=(const device_access &) = delete;

  private:
    bool whole;
    char *pages; /* nullptr: none of its own */
    size_t pages_bytes;
};
