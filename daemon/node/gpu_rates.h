/*
 * How fast this node's GPUs are, for the planner: firn-worker measures one of them, once for each
 * kind of device and version of its libraries. The answer is kept in the data folder, so a firnd
 * that starts again while its workers train does not measure beside them, and says what it said
 * before. Delete the file "gpu-rates" to have it measured again.
 */
#pragma once

#include "daemon/core/daemon.h"
#include "daemon/node/gpu.h"

/**
 * gpu_rates_parse() - a line of `firn-worker rates cuda` (worker/device/slot_benchmark.h)
 * @ret_rates: link_bytes is the way through the host
 * @ret_nccl: tensors of GPUs of one node can go directly
 * Return: 0; -EINVAL: it is no such line
 */
int gpu_rates_parse(const char *line, struct record_rates *ret_rates, bool *ret_nccl) CHECK_RESULT;

/** gpu_rates_linked() - every two of the GPUs have NVLink between them; one is not enough */
bool gpu_rates_linked(const struct gpu_list *list);

/** gpu_rates_describe() - fill @self->rates, once @self->arithmetic is known; what cannot be found
 * out stays 0, with a warning: plans then know the kind of device alone */
void gpu_rates_describe(const struct config *config, const struct gpu_list *list,
                        struct node_record *self);
