/*
 * Which GPUs a node offers as slots, and which it takes out of service. Decisions only: what is
 * known of the GPUs comes from daemon/node/nvml.h.
 *
 * One GPU is one slot, in the driver's order. A GPU that is unhealthy keeps its slot, marked bad
 * with the reason, so that slots keep their numbers and an operator sees what is missing. Nothing
 * makes it good again but `firnctl node resume` after a look at it, or a new start of firnd.
 */
#pragma once

#include "daemon/node/gpu.h"
#include "membership/kv/records.h"

/** gpu_slots() - fill @self's slots with the first @slots_max GPUs; @thread_count: of the host, per
 * slot */
void gpu_slots(const struct gpu_list *list, unsigned slots_max, unsigned thread_count,
               struct node_record *self);

/** gpu_slots_update() - mark what has become unhealthy; true: something changed */
bool gpu_slots_update(const struct gpu_list *list, struct node_record *self);
