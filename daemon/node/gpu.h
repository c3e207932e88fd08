/*
 * A GPU of this machine, and whether it is healthy. Filled in by daemon/node/nvml.h.
 *
 * Xid errors (NVIDIA, "Xid Errors") have many causes. Errors that a program causes by itself (a
 * fault of a kernel, a killed process) do not concern the device. The errors listed in gpu.c mean
 * that memory, link or firmware is broken until a reset.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define GPU_COUNT_MAX 64
#define GPU_UUID_SIZE 96

/* The shortest path between two GPUs, nearest first. */
enum gpu_path {
    GPU_PATH_SELF,
    GPU_PATH_NVLINK,
    GPU_PATH_PCIE, /* switches of one host bridge */
    GPU_PATH_NODE, /* host bridges of one processor */
    GPU_PATH_SYSTEM,
};

struct gpu {
    unsigned index; /* the driver's index */
    char uuid[GPU_UUID_SIZE];
    char name[96];
    char bus_id[32];
    uint64_t memory_bytes;
    unsigned compute_major, compute_minor;
    bool partitioned;             /* MIG is on */
    uint64_t uncorrected_errors;  /* of memory, since the driver was loaded; 0 without ECC */
    bool repair_pending;          /* rows are to be remapped, or pages retired, at the next reset */
    bool repair_failed;           /* no spare rows are left */
    unsigned xid;                 /* gravest error reported since nvml_open(); 0: none */
    bool lost;                    /* unreachable for the driver */
    uint8_t paths[GPU_COUNT_MAX]; /* enum gpu_path to the GPU at that place of the list */
};

struct gpu_list {
    unsigned count;
    struct gpu gpus[GPU_COUNT_MAX];
};

/** gpu_fault() - return false if @gpu is healthy; otherwise write the reason to @text */
bool gpu_fault(const struct gpu *gpu, char *text, size_t size);

/** gpu_xid_worse() - return the Xid error to remember of two: a grave one before a harmless one,
 * then the older one; 0: none */
unsigned gpu_xid_worse(unsigned old, unsigned new);
