/* Memory that the planner counts for one worker of a plan. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "elastic/job/job_spec.h"
#include "elastic/plan/plan_layout.h"
#include "elastic/planner/planner.h"

/**
 * planned_worker_bytes() - return the bytes of worker @rank: its stage, the shadow copies that it
 * keeps, and on a CPU slot its process
 * @gpu: the slot is a GPU; otherwise it is a CPU slot with @threads
 *
 * Return: 0: out of memory
 */
size_t planned_worker_bytes(const struct job_spec *spec, const struct plan_layout *layout,
                            unsigned rank, bool gpu, unsigned threads);

/**
 * planned_copy_bytes() - return the bytes of a copy of @stage: parameters, two moments and the
 * gradients of a step
 * @units: the units of the model
 */
size_t planned_copy_bytes(const struct planner_unit *units, const struct plan_layout *layout,
                          unsigned stage);
