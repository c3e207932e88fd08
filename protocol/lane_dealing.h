/*
 * Deal the lanes of a step that no replica has begun, so that all replicas finish the step at the
 * same time.
 *
 * Replicas may have lanes in progress. Each gets neighbouring lanes, because their sums merge: as
 * many whole lanes as fit the work that it has already, or, if the plan lets replicas share lanes,
 * an exact part, whose first and last lanes may be shared (protocol/step_division.h). A lane is
 * shared only where its head is computed before the rest of it is due.
 */
#pragma once

#include "protocol/step_division.h"

#define LANE_DEALING_NO_OWNER UINT16_MAX

/** lane_dealing_run() - give an owner to each lane of @division that has LANE_DEALING_NO_OWNER;
 * work is weighed by the plan's lanes, which follow the speeds of the slots */
void lane_dealing_run(const struct plan_layout *layout, struct step_division *division);
