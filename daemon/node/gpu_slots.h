/*
 * Choose the GPUs that a node offers as slots, and those that it takes out of service. Decisions
 * only; daemon/node/nvml.h provides the state of the GPUs.
 *
 * One GPU is one slot, in the driver's order. An unhealthy GPU keeps its slot, marked bad with the
 * reason, so that slots keep their numbers and an operator sees the missing one. Only `firnctl node
 * resume`, after a check of the GPU, or a restart of firnd brings it back.
 */
#pragma once

#include "daemon/node/gpu.h"
#include "membership/kv/records.h"

/** gpu_slots() - fill @self's slots with the first @slots_max GPUs; @thread_count: host threads
 * per slot */
void gpu_slots(const struct gpu_list *list, unsigned slots_max, unsigned thread_count,
               struct node_record *self);

/** gpu_slots_update() - mark slots whose GPUs have become unhealthy. Return: whether a slot
 * changed */
bool gpu_slots_update(const struct gpu_list *list, struct node_record *self);
