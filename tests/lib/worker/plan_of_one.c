#include "lib/worker/plan_of_one.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

struct plan *plan_of_one(unsigned unit_count, unsigned lane_count)
{
    struct plan *plan = plan_new();

    assert_non_null(plan);
    snprintf(plan->job, sizeof(plan->job), "tiny");
    plan->generation = 7;
    plan->layout.stage_count = plan->layout.replica_count = plan->layout.worker_count = 1;
    plan->layout.workers = calloc(1, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(2, sizeof(unsigned));
    assert_true(plan->layout.workers && plan->layout.stage_first_unit &&
                plan->layout.replica_first_lane);
    plan->layout.stage_first_unit[1] = unit_count;
    plan->layout.replica_first_lane[1] = lane_count;
    return plan;
}

void plan_of_one_keeps_copies(struct plan *plan)
{
    plan->checkpoints.copies = 2;
    plan->checkpoints.copy_node_count = 1;
    plan->checkpoints.copy_nodes = calloc(1, sizeof(*plan->checkpoints.copy_nodes));
    assert_non_null(plan->checkpoints.copy_nodes);
    snprintf(plan->checkpoints.copy_nodes[0].node, sizeof(plan->checkpoints.copy_nodes[0].node),
             "a");
    snprintf(plan->layout.workers[0].node, sizeof(plan->layout.workers[0].node), "a");
    snprintf(plan->checkpoints.copy_nodes[0].http, sizeof(plan->checkpoints.copy_nodes[0].http),
             "127.0.0.1:1");
    memset(plan->links.key, '7', sizeof(plan->links.key) - 1);
}
