/*
 * Measure this node's GPUs, for the planner: firn-worker measures one GPU, once for each kind of
 * device and version of its libraries. The rates are kept in the data folder, so a firnd that
 * restarts while its workers train does not measure beside them, and publishes the same rates as
 * before. Delete the file "gpu-rates" to measure again.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"
#include "daemon/node/gpu.h"
#include "membership/kv/records.h"

struct config;

/**
 * gpu_rates_parse() - parse a line of `firn-worker rates cuda` (worker/device/slot_benchmark.h)
 * @ret_rates: link_bytes is the rate through the host
 * @ret_nccl: tensors can go directly between GPUs of one node
 * Return: 0; -EINVAL: malformed
 */
int gpu_rates_parse(const char *line, struct record_rates *ret_rates, bool *ret_nccl) CHECK_RESULT;

/** gpu_rates_linked() - return whether every two of the GPUs are connected by NVLink; false for
 * a single GPU */
bool gpu_rates_linked(const struct gpu_list *list);

/** gpu_rates_describe() - fill @self->rates, once @self->numerics_identity is known; unknown rates
 * stay 0, with a warning: plans then know only the kind of device */
void gpu_rates_describe(const struct config *config, const struct gpu_list *list,
                        struct node_record *self);
