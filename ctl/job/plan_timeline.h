/* Draw one step of a pipeline as the planner expects it: a row for each stage, time to the right.
 */
#pragma once

#include "base/bytes.h"
#include "elastic/planner/planner.h"

/**
 * plan_timeline_append() - append the picture, @columns wide, with its legend; nothing for a single
 * stage. Of many micro-batches only some are drawn, of many stages only the outer ones; the legend
 * says so. Return: 0 or -ENOMEM
 */
int plan_timeline_append(const struct planner_input *input, const struct plan_layout *layout,
                         unsigned columns, struct bytes *into) CHECK_RESULT;
