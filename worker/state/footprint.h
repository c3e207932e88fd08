/*
 * The peak memory of this worker since its generation has settled, as plans count it
 * (elastic/planner/process_memory.h): on a CPU slot the resident memory of the process, on a device
 * the device memory taken since it was opened. Training data does not count.
 *
 * The kernel keeps a process's peak until it exits, and at a switch a worker has the memory of both
 * generations. So the peak is reset when the memory of the last generation is dropped.
 */
#pragma once

#include "kernels/kernel.h"
#include "model/data/dataset.h"

struct footprint {
    const struct kernel *kernel; /* borrowed, with the device; NULL: not opened */
    struct kernel_device *device;
    size_t free_at_first; /* of the device's own memory */
    uint64_t peak_bytes;  /* of the device's own memory, seen so far */
};

/** footprint_open() - record the free memory of @device before anything is allocated there */
void footprint_open(struct footprint *footprint, const struct kernel *kernel,
                    struct kernel_device *device);

/** footprint_restart() - reset the peak: a generation has settled */
void footprint_restart(struct footprint *footprint);

/** footprint_peak_bytes() - return the peak; 0: not known. @dataset: NULL while there is none */
uint64_t footprint_peak_bytes(struct footprint *footprint, const struct dataset *dataset);

/** footprint_parse() - return the value of @key, such as "VmHWM:", in the text of
 * /proc/self/status, in bytes; 0: not found */
uint64_t footprint_parse(const char *text, const char *key);
