/* How long one replica's stages take for their micro-batches, by the 1F1B schedule. Private to the
   planner: planner_time.h adds what comes after the last backward. */
#pragma once

#include "elastic/planner/planner_time.h"

/**
 * pipeline_seconds() - from the first forward to the last operation of @count micro-batches
 * @costs: @stage_count of them; the stages without a backward come first, as stage_costs() has them
 * Return: 0 or -ENOMEM. O(stages * micro-batches).
 */
int pipeline_seconds(const struct stage_cost *costs, unsigned stage_count, unsigned count,
                     double *ret_seconds) CHECK_RESULT;
