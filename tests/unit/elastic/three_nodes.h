/*
 * One job of one stage and three replicas on nodes a, b and c, generation 6 in force, with
 * hand-made reports.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader.h"
#include "elastic/planner/start_time.h"

#define TIMEOUT_NS (1000 * NS_PER_MS)
#define NODES      3
#define LANES      6

static struct job_spec spec;
static struct member nodes[NODES];
static struct node_report reports[NODES];
static const struct node_report *const report_list[NODES] = {&reports[0], &reports[1], &reports[2]};
static struct leader_view view;
static struct leader_memory memory;
static struct leader_decision decision;
static struct plan *plan;

static inline int setup(void **state)
{
    (void)state;
    memset(&spec, 0, sizeof(spec));
    snprintf(spec.name, sizeof(spec.name), "job");
    spec.model.layers = 2;
    spec.model.width = 64;
    spec.model.heads = 4;
    spec.model.context = 64;
    spec.model.vocab = 256;
    spec.train.lanes = LANES;
    spec.train.micro_batch = spec.train.micro_batches_per_lane = 1;
    spec.elastic.devices_min = 1;
    spec.elastic.devices_max = 8;
    memset(&memory, 0, sizeof(memory));
    memset(nodes, 0, sizeof(nodes));
    memset(reports, 0, sizeof(reports));

    plan = plan_new();
    assert_non_null(plan);
    plan->generation = 6;
    plan->start.source = PLAN_SOURCE_MEMORY;
    plan->start.resume_step = 9;
    plan->layout.stage_count = 1;
    plan->layout.replica_count = plan->layout.worker_count = NODES;
    plan->layout.workers = calloc(NODES, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(NODES + 1, sizeof(unsigned));
    assert_true(plan->layout.workers && plan->layout.stage_first_unit &&
                plan->layout.replica_first_lane);
    plan->layout.stage_first_unit[1] = job_model_unit_count(&spec.model);
    for (unsigned i = 0; i < NODES; i++) {
        plan->layout.replica_first_lane[i + 1] = (i + 1) * LANES / NODES;
        snprintf(nodes[i].name, NAME_SIZE, "%c", 'a' + i);
        snprintf(nodes[i].host, ADDRESS_SIZE, "127.0.0.1");
        nodes[i].link_port = 7000 + 10 * i;
        nodes[i].slot_count = 1;
        nodes[i].slots[0].speed = 1;
        memcpy(plan->layout.workers[i].node, nodes[i].name, NAME_SIZE);
        snprintf(plan->layout.workers[i].address, ADDRESS_SIZE, "127.0.0.1:%u", 7000 + 10 * i);
        plan->layout.workers[i].instance = 10 + i;
        memcpy(reports[i].node, nodes[i].name, NAME_SIZE);
        reports[i].generation = 6;
        reports[i].worker_count = 1;
        reports[i].workers[0].instance = 10 + i;
    }
    view = (struct leader_view){.now_ns = 100 * TIMEOUT_NS,
                                .failure_timeout_ns = TIMEOUT_NS,
                                .spec = &spec,
                                .plan = plan,
                                .nodes = nodes,
                                .node_count = NODES,
                                .reports = report_list,
                                .report_count = NODES,
                                .checkpoint = {.step = 4, .path = "/checkpoint"},
                                .progress_step = 9};
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    plan_free(decision.plan);
    decision.plan = NULL;
    plan_free(plan);
    return 0;
}

static inline void say(unsigned node, enum worker_phase phase, uint64_t generation,
                       uint64_t applied)
{
    struct worker_report *report = &reports[node].workers[0];
    report->phase = phase;
    report->generation = generation;
    report->applied_step = applied;
    report->held_unit_count = phase == WORKER_DEAD ? 0 : job_model_unit_count(&spec.model);
}

/* Make the worker hold applied + 1 and know the losses of lanes [first, end). */
static inline void hold(unsigned node, unsigned first, unsigned end)
{
    struct worker_report *report = &reports[node].workers[0];
    unsigned units = job_model_unit_count(&spec.model);
    report->holds = true;
    step_record_init(&report->record, report->applied_step + 1, units, LANES);
    for (unsigned unit = 0; unit < units; unit++)
        report->record.unit_squares[unit] = unit;
    for (; first < end; first++)
        report->record.lane_losses[first] = first;
}

static inline void decide(void)
{
    struct error error;
    plan_free(decision.plan);
    decision.plan = NULL;
    assert_int_equal(leader_decide(&view, &memory, &decision, &error), 0);
}

static inline void expect_published(uint64_t step, uint64_t commit)
{
    assert_int_equal(decision.action, LEADER_PUBLISH);
    assert_int_equal(decision.plan->start.source, PLAN_SOURCE_MEMORY);
    assert_int_equal(decision.plan->start.resume_step, step);
    assert_int_equal(decision.plan->start.has_commit ? decision.plan->start.commit.step : 0,
                     commit);
}
