/* A plan with every part in use: 2 stages x 3 replicas, a shadow, a donor, a commit, moves and a
 * history. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "elastic/plan/plan.h"

#define SAMPLE_UNITS  6
#define SAMPLE_LANES  8
#define SAMPLE_STAGES 2

static inline void sample_record(struct step_record *record, uint64_t step)
{
    step_record_init(record, step, SAMPLE_UNITS, SAMPLE_LANES);
    for (unsigned i = 0; i < SAMPLE_UNITS; i++)
        record->unit_squares[i] = 0.1 * (i + 1);
    for (unsigned i = 0; i < SAMPLE_LANES; i++)
        record->lane_losses[i] = 1.0 / (i + 3);
}

static inline struct plan *sample_plan(void)
{
    static const unsigned first_unit[] = {0, 2, SAMPLE_UNITS};
    static const unsigned first_lane[] = {0, 3, 6, SAMPLE_LANES};
    static const struct plan_move moves[] = {{.unit = 0, .from_rank = 6, .to_rank = 0},
                                             {.unit = 1, .from_rank = 6, .to_rank = 0},
                                             {.unit = 5, .from_rank = 3, .to_rank = 1}};
    static const struct plan_move histories[] = {{.from_rank = 0, .to_rank = 5}};
    struct plan *plan = plan_new();
    strcpy(plan->job, "demo");
    plan->generation = 7;
    plan->reason = PLAN_REASON_FAILURE;
    strcpy(plan->reason_text, "node b lost: 6 slots -> 4");
    strcpy(plan->arithmetic, "OpenBLAS 0.3.21 Zen, kernels 1, 2 threads");
    plan->links = 2;
    memset(plan->key, 'a', PLAN_KEY_HEX_SIZE - 1);
    plan->stage_count = SAMPLE_STAGES;
    plan->replica_count = 3;
    plan->worker_count = 6;
    plan->donor_count = 1;
    plan->workers = calloc(7, sizeof(*plan->workers));
    for (unsigned i = 0; i < 7; i++) {
        snprintf(plan->workers[i].node, NAME_SIZE, "node%u", i / 2);
        plan->workers[i].slot = i % 2;
        snprintf(plan->workers[i].address, ADDRESS_SIZE, "127.0.0.1:%u", 7000 + i);
        plan->workers[i].instance = 0xfedcba9876543210u + i;
    }
    plan->stage_first_unit = calloc(3, sizeof(unsigned));
    memcpy(plan->stage_first_unit, first_unit, sizeof(first_unit));
    plan->replica_first_lane = calloc(4, sizeof(unsigned));
    memcpy(plan->replica_first_lane, first_lane, sizeof(first_lane));
    plan->shadow_count = 1; /* stage 0 on node0, its copy on node1 */
    plan->shadows = calloc(1, sizeof(*plan->shadows));
    plan->shadows[0] = (struct plan_shadow){.stage = 0, .rank = 3};
    plan->frozen_layers = 1;
    plan->source = PLAN_SOURCE_MEMORY;
    plan->resume_step = 42;
    plan->has_commit = true;
    sample_record(&plan->commit, 42);
    plan->move_count = 3;
    plan->moves = calloc(3, sizeof(*plan->moves));
    memcpy(plan->moves, moves, sizeof(moves));
    plan->history_count = 1;
    plan->histories = calloc(1, sizeof(*plan->histories));
    memcpy(plan->histories, histories, sizeof(histories));
    plan->predicted_step_seconds = 0.1;
    plan->recompute = PLAN_RECOMPUTE_ATTENTION;
    plan->patient = plan->breaks_off = plan->disputed = true;
    plan->copies = 2;
    plan->store_count = 4;
    plan->stores = calloc(4, sizeof(*plan->stores));
    for (unsigned i = 0; i < 4; i++) {
        snprintf(plan->stores[i].node, NAME_SIZE, "node%u", i);
        snprintf(plan->stores[i].http, ADDRESS_SIZE, "127.0.0.1:%u", 7580 + i);
        snprintf(plan->stores[i].domain, NAME_SIZE, "rack%u", i / 2);
    }
    memset(plan->restore_sha256, 'b', sizeof(plan->restore_sha256) - 1);
    plan->slow_count = 2;
    plan->slow[0] = (struct plan_slow){"node3", 1, 0xfedcba9876543210, 0.25, 3};
    plan->slow[1] = (struct plan_slow){"node1", 1, 7, 1, 1};
    return plan;
}
