/* A plan with a given number of ranks, one rank on each node. */
#pragma once

#include "elastic/plan/plan.h"

/** ranked_plan() - Return a plan on nodes n0, n1, ..., without stages; free it with plan_free() */
struct plan *ranked_plan(unsigned count);
