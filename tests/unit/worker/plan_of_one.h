/* The smallest plan: one stage on one worker. */
#pragma once

#include <string.h>

#include "elastic/plan/plan.h"

/** plan_of_one() - Return generation 7 of the job "tiny", all units and lanes on rank 0; free it
 * with plan_free() */
static inline struct plan *plan_of_one(unsigned unit_count, unsigned lane_count)
{
    struct plan *plan = plan_new();

    assert_non_null(plan);
    snprintf(plan->job, sizeof(plan->job), "tiny");
    plan->generation = 7;
    plan->stage_count = plan->replica_count = plan->worker_count = 1;
    plan->workers = calloc(1, sizeof(*plan->workers));
    plan->stage_first_unit = calloc(2, sizeof(unsigned));
    plan->replica_first_lane = calloc(2, sizeof(unsigned));
    assert_true(plan->workers && plan->stage_first_unit && plan->replica_first_lane);
    plan->stage_first_unit[1] = unit_count;
    plan->replica_first_lane[1] = lane_count;
    return plan;
}

/** plan_of_one_keeps_copies() - Make checkpoints go through shares, receipts and seals, on the
 * only node, "a" */
static inline void plan_of_one_keeps_copies(struct plan *plan)
{
    plan->copies = 2;
    plan->store_count = 1;
    plan->stores = calloc(1, sizeof(*plan->stores));
    assert_non_null(plan->stores);
    snprintf(plan->stores[0].node, sizeof(plan->stores[0].node), "a");
    snprintf(plan->workers[0].node, sizeof(plan->workers[0].node), "a");
    snprintf(plan->stores[0].http, sizeof(plan->stores[0].http), "127.0.0.1:1");
    memset(plan->key, '7', sizeof(plan->key) - 1);
}
