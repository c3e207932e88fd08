#include "lib/elastic/sample_plan.h"

#include <stdio.h>
#include <string.h>

static void sample_record(struct step_record *record, uint64_t step)
{
    step_record_init(record, step, SAMPLE_UNITS, SAMPLE_LANES);
    for (unsigned i = 0; i < SAMPLE_UNITS; i++)
        record->unit_squares[i] = 0.1 * (i + 1);
    for (unsigned i = 0; i < SAMPLE_LANES; i++)
        record->lane_losses[i] = 1.0 / (i + 3);
}

static void add_copy_nodes(struct plan_checkpoints *checkpoints)
{
    checkpoints->recorded_step = 40;
    checkpoints->copies = 2;
    checkpoints->copy_node_count = 4;
    checkpoints->copy_nodes = calloc(4, sizeof(*checkpoints->copy_nodes));
    for (unsigned i = 0; i < 4; i++) {
        struct plan_copy_node *node = &checkpoints->copy_nodes[i];
        snprintf(node->node, NAME_SIZE, "node%u", i);
        snprintf(node->http, ADDRESS_SIZE, "127.0.0.1:%u", 7580 + i);
        snprintf(node->domain, NAME_SIZE, "rack%u", i / 2);
    }
}

static void add_moves(struct plan *plan)
{
    static const struct plan_move moves[] = {{.unit = 0, .from_rank = 6, .to_rank = 0},
                                             {.unit = 1, .from_rank = 6, .to_rank = 0},
                                             {.unit = 5, .from_rank = 3, .to_rank = 1}};
    static const struct plan_move histories[] = {{.from_rank = 0, .to_rank = 5}};
    static const struct plan_move sums[] = {{.from_rank = 4, .to_rank = 1},
                                            {.from_rank = 6, .to_rank = 0}};
    plan->start.move_count = 3;
    plan->start.moves = calloc(3, sizeof(*plan->start.moves));
    memcpy(plan->start.moves, moves, sizeof(moves));
    plan->start.history_count = 1;
    plan->start.histories = calloc(1, sizeof(*plan->start.histories));
    memcpy(plan->start.histories, histories, sizeof(histories));
    plan->start.sums_count = 2;
    plan->start.sums = calloc(2, sizeof(*plan->start.sums));
    memcpy(plan->start.sums, sums, sizeof(sums));
}

struct plan *sample_plan(void)
{
    static const unsigned first_unit[] = {0, 2, SAMPLE_UNITS};
    static const unsigned first_lane[] = {0, 3, 6, SAMPLE_LANES};
    struct plan *plan = plan_new();
    strcpy(plan->job, "demo");
    plan->generation = 7;
    plan->change.reason = PLAN_REASON_FAILURE;
    strcpy(plan->change.text, "node b lost: 6 slots -> 4");
    strcpy(plan->numerics, "OpenBLAS 0.3.21 Zen, kernels 1, 2 threads");
    plan->links.protocol = 2;
    memset(plan->links.key, 'a', PLAN_KEY_HEX_SIZE - 1);
    plan->layout.stage_count = SAMPLE_STAGES;
    plan->layout.replica_count = 3;
    plan->layout.worker_count = 6;
    plan->layout.donor_count = 1;
    plan->layout.workers = calloc(7, sizeof(*plan->layout.workers));
    for (unsigned i = 0; i < 7; i++) {
        snprintf(plan->layout.workers[i].node, NAME_SIZE, "node%u", i / 2);
        plan->layout.workers[i].slot = i % 2;
        snprintf(plan->layout.workers[i].address, ADDRESS_SIZE, "127.0.0.1:%u", 7000 + i);
        plan->layout.workers[i].instance = 0xfedcba9876543210u + i;
    }
    plan->layout.stage_first_unit = calloc(3, sizeof(unsigned));
    memcpy(plan->layout.stage_first_unit, first_unit, sizeof(first_unit));
    plan->layout.replica_first_lane = calloc(4, sizeof(unsigned));
    memcpy(plan->layout.replica_first_lane, first_lane, sizeof(first_lane));
    plan->layout.lane_micro_batches = 5;
    plan->layout.head_seconds = 0.25;
    plan->layout.copy_seconds = 0.5;
    plan->layout.replica_head = calloc(4, sizeof(unsigned));
    plan->layout.replica_head[1] = 2; /* of lane 3 */
    plan->layout.shadow_count = 1;    /* stage 0 on node0, its copy on node1 */
    plan->layout.shadows = calloc(1, sizeof(*plan->layout.shadows));
    plan->layout.shadows[0] = (struct plan_shadow){.stage = 0, .rank = 3};
    plan->layout.frozen_layers = 1;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = 42;
    plan->start.has_commit = true;
    sample_record(&plan->start.commit, 42);
    add_moves(plan);
    plan->layout.predicted_step_seconds = 0.1;
    plan->layout.prediction_factor = 1.5;
    plan->change.switch_seconds = 0.25;
    plan->change.before_seconds = 0.2;
    plan->change.asked_devices = 2;
    plan->change.busy_ns = 1500000000;
    plan->trial = (struct plan_trial){{6, 1}, 0.125, {3, 2}, 1};
    plan->layout.deferred = 1;
    plan->start.last_dispute = 3;
    plan->layout.recompute = PLAN_RECOMPUTE_ATTENTION;
    plan->change.is_limited = true;
    plan->change.limit_ns = 12500000000;
    plan->change.spare_ns = 15000000000;
    plan->change.revokes_first = 5;
    plan->change.revokes_last = 6;
    plan->links.patient = plan->change.breaks_off = plan->start.disputed = true;
    add_copy_nodes(&plan->checkpoints);
    memset(plan->start.restore_sha256, 'b', sizeof(plan->start.restore_sha256) - 1);
    plan->hosts.count = 2;
    plan->hosts.list = calloc(2, sizeof(*plan->hosts.list));
    plan->hosts.list[0] = (struct plan_host){"node0", "10.0.0.1:7400"};
    plan->hosts.list[1] = (struct plan_host){"node1", "[fd00::2]:7400"};
    plan->slow_count = 2;
    plan->slow[0] = (struct plan_slow){"node3", 1, 0xfedcba9876543210, 0.25, 3};
    plan->slow[1] = (struct plan_slow){"node1", 1, 7, 1, 1};
    return plan;
}
