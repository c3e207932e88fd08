/*
 * A GPU of this machine as firnd knows it, and whether it is fit to be used. Filled by
 * daemon/node/nvml.h.
 *
 * Xid errors (NVIDIA, "Xid Errors") tell of many things. Those that a program causes by itself (a
 * fault of a kernel, a killed process) say nothing about the device; those listed in gpu.c mean
 * that memory, link or firmware is broken until a reset.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define GPU_COUNT_MAX 64
#define GPU_UUID_SIZE 96

/* The best way between two GPUs, nearest first. */
enum gpu_path {
    GPU_PATH_SELF,
    GPU_PATH_NVLINK,
    GPU_PATH_PCIE, /* switches of one host bridge */
    GPU_PATH_NODE, /* host bridges of one processor */
    GPU_PATH_SYSTEM,
};

struct gpu {
    unsigned index; /* as the driver counts */
    char uuid[GPU_UUID_SIZE];
    char name[96];
    char bus_id[32];
    uint64_t memory_bytes;
    unsigned compute_major, compute_minor;
    bool partitioned;             /* MIG is on */
    uint64_t uncorrected_errors;  /* of memory, since the driver was loaded; 0 without ECC */
    bool repair_pending;          /* rows are to be remapped, or pages retired, at the next reset */
    bool repair_failed;           /* no spare rows are left */
    unsigned xid;                 /* the gravest error that the driver told since nvml_open(); 0 */
    bool lost;                    /* the driver no longer reaches it */
    uint8_t paths[GPU_COUNT_MAX]; /* enum gpu_path to the GPU of that place in the list */
};

struct gpu_list {
    unsigned count;
    struct gpu gpus[GPU_COUNT_MAX];
};

/** gpu_fault() - why @gpu must not be used, into @text; false: it is healthy */
bool gpu_fault(const struct gpu *gpu, char *text, size_t size);

/** gpu_xid_worse() - which of two Xid errors to remember: a grave one before a harmless one, then
 * the older; 0 is none */
unsigned gpu_xid_worse(unsigned old, unsigned new);
