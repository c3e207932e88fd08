/*
 * What this worker has taken at most since its generation has settled, as plans count it
 * (elastic/planner/process_memory.h): on a CPU slot the resident memory of the process, on a device
 * what of the device's memory went since it was opened. Training data is left out.
 *
 * The kernel keeps a process's peak for its whole life, and a generation takes over from the one
 * before with the memory of both. So the peak is begun anew when what came from before is dropped.
 */
#pragma once

#include "kernels/kernel.h"
#include "model/data/dataset.h"

struct footprint {
    const struct kernel *kernel; /* borrowed, with the device; NULL: not opened */
    struct kernel_device *device;
    size_t free_at_first; /* of a device's own memory */
    uint64_t peak_bytes;  /* of that, seen so far */
};

/** footprint_open() - before anything is taken of @device */
void footprint_open(struct footprint *footprint, const struct kernel *kernel,
                    struct kernel_device *device);

/** footprint_restart() - a generation has settled: what was taken before counts no more */
void footprint_restart(struct footprint *footprint);

/** footprint_peak_bytes() - 0: not known. @dataset: NULL while there is none */
uint64_t footprint_peak_bytes(struct footprint *footprint, const struct dataset *dataset);

/** footprint_parse() - @key, as "VmHWM:", of the text of /proc/self/status, in bytes; 0: it is not
 * there */
uint64_t footprint_parse(const char *text, const char *key);
