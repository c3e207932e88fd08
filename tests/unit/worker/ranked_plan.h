/* A plan with a given number of ranks, one rank on each node. */
#pragma once

#include "elastic/plan/plan.h"

/** ranked_plan() - Return a plan on nodes n0, n1, ..., without stages; free it with plan_free() */
static inline struct plan *ranked_plan(unsigned count)
{
    struct plan *plan = plan_new();

    assert_non_null(plan);
    plan->layout.worker_count = count;
    plan->layout.workers = calloc(count, sizeof(*plan->layout.workers));
    assert_non_null(plan->layout.workers);
    for (unsigned i = 0; i < count; i++)
        snprintf(plan->layout.workers[i].node, NAME_SIZE, "n%u", i);
    return plan;
}
