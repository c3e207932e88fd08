/* What one worker of a plan takes of its slot's memory, as the plan was made. */
#pragma once

#include "elastic/plan/plan.h"
#include "elastic/planner/planner.h"

/**
 * planned_worker_bytes() - of @rank, one of the plan's workers: its stage, the copies of other
 * stages that it keeps, and on a CPU slot its process
 * @gpu: the slot is one; else it has @threads
 *
 * Return: 0 when memory is short
 */
size_t planned_worker_bytes(const struct job_spec *spec, const struct plan *plan, unsigned rank,
                            bool gpu, unsigned threads);

/** planned_copy_bytes() - of a copy of @stage: parameters, two moments and the gradients of a step;
 * @units: of the model */
size_t planned_copy_bytes(const struct planner_unit *units, const struct plan *plan,
                          unsigned stage);
