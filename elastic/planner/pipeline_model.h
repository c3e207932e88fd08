/* Predict the time of one replica's micro-batches under the schedule of pipeline_schedule.h.
 * Private to the planner. planner_time.h adds the reduction, the commit and the optimizer, which
 * follow the last backward. */
#pragma once

#include "elastic/planner/planner_time.h"

/**
 * pipeline_seconds() - return the seconds from the first forward to the last operation of @count
 * micro-batches
 * @costs: @stage_count entries; the stages without a backward come first, as in stage_costs()
 * Return: 0 or -ENOMEM. O(stages * micro-batches).
 */
int pipeline_seconds(const struct stage_cost *costs, unsigned stage_count, unsigned count,
                     double *ret_seconds) CHECK_RESULT;
