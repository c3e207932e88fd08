/*
 * Query the GPUs of this machine through NVIDIA's management library (NVML): their properties,
 * their interconnect, and their health. Source: NVML API reference guide.
 *
 * The library comes with the driver. It is opened at run time, so one firnd binary serves machines
 * with and without GPUs and is built without any toolkit. NVML is not part of CUDA and creates no
 * context on a device. Calls take up to milliseconds, so firnd polls every few seconds, not every
 * turn.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "daemon/node/gpu.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

struct nvml;

/**
 * nvml_open() - open the library and list the GPUs
 * @library: NVML_LIBRARY, or another path (tests)
 * @ret_list: large; owned by the caller, updated by nvml_look()
 *
 * Return: 0 (also for no GPU: the count is 0), -ENOENT: this machine has no such library or no
 * driver, -ENOMEM, -EIO: the driver is present and does not work; @error names the case.
 */
int nvml_open(const char *library, struct nvml **ret_nvml, struct gpu_list *ret_list,
              struct error *error) CHECK_RESULT;

/** nvml_look() - read health again, and errors reported since; never waits. Pass the list of
 * nvml_open(). */
void nvml_look(struct nvml *nvml, struct gpu_list *list);

/** nvml_close() - NULL allowed */
void nvml_close(struct nvml *nvml);
