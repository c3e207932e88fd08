#include "lib/elastic/three_nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "elastic/planner/start_time.h"

struct job_spec three_spec;
struct member three_nodes[NODES];
struct node_report three_reports[NODES];
static const struct node_report *const report_list[NODES] = {&three_reports[0], &three_reports[1],
                                                             &three_reports[2]};
struct leader_view three_view;
struct leader_memory three_memory;
struct leader_decision three_decision;
struct plan *three_plan;

int three_setup(void **state)
{
    (void)state;
    memset(&three_spec, 0, sizeof(three_spec));
    snprintf(three_spec.name, sizeof(three_spec.name), "job");
    three_spec.model.layers = 2;
    three_spec.model.width = 64;
    three_spec.model.heads = 4;
    three_spec.model.context = 64;
    three_spec.model.vocab = 256;
    three_spec.train.steps = 100;
    three_spec.train.lanes = LANES;
    three_spec.train.micro_batch = three_spec.train.micro_batches_per_lane = 1;
    three_spec.elastic.devices_min = 1;
    three_spec.elastic.devices_max = 8;
    memset(&three_memory, 0, sizeof(three_memory));
    memset(three_nodes, 0, sizeof(three_nodes));
    memset(three_reports, 0, sizeof(three_reports));

    three_plan = plan_new();
    assert_non_null(three_plan);
    three_plan->generation = 6;
    three_plan->start.source = PLAN_SOURCE_MEMORY;
    three_plan->start.resume_step = 9;
    three_plan->layout.stage_count = 1;
    three_plan->layout.replica_count = three_plan->layout.worker_count = NODES;
    three_plan->layout.workers = calloc(NODES, sizeof(*three_plan->layout.workers));
    three_plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
    three_plan->layout.replica_first_lane = calloc(NODES + 1, sizeof(unsigned));
    assert_true(three_plan->layout.workers && three_plan->layout.stage_first_unit &&
                three_plan->layout.replica_first_lane);
    three_plan->layout.stage_first_unit[1] = job_model_unit_count(&three_spec.model);
    for (unsigned i = 0; i < NODES; i++) {
        three_plan->layout.replica_first_lane[i + 1] = (i + 1) * LANES / NODES;
        snprintf(three_nodes[i].name, NAME_SIZE, "%c", 'a' + i);
        snprintf(three_nodes[i].host, ADDRESS_SIZE, "127.0.0.1");
        three_nodes[i].link_port = 7000 + 10 * i;
        three_nodes[i].slot_count = 1;
        three_nodes[i].slots[0].speed = 1;
        memcpy(three_plan->layout.workers[i].node, three_nodes[i].name, NAME_SIZE);
        snprintf(three_plan->layout.workers[i].address, ADDRESS_SIZE, "127.0.0.1:%u",
                 7000 + 10 * i);
        three_plan->layout.workers[i].instance = 10 + i;
        memcpy(three_reports[i].node, three_nodes[i].name, NAME_SIZE);
        three_reports[i].generation = 6;
        three_reports[i].worker_count = 1;
        three_reports[i].workers[0].instance = 10 + i;
    }
    three_view = (struct leader_view){.now_ns = 100 * TIMEOUT_NS,
                                      .failure_timeout_ns = TIMEOUT_NS,
                                      .spec = &three_spec,
                                      .plan = three_plan,
                                      .nodes = three_nodes,
                                      .node_count = NODES,
                                      .reports = report_list,
                                      .report_count = NODES,
                                      .checkpoint = {.step = 4, .path = "/checkpoint"},
                                      .progress.step = 9};
    return 0;
}

int three_teardown(void **state)
{
    (void)state;
    plan_free(three_decision.plan);
    three_decision.plan = NULL;
    plan_free(three_plan);
    return 0;
}

void three_say(unsigned node, enum worker_phase phase, uint64_t generation, uint64_t applied)
{
    struct worker_report *report = &three_reports[node].workers[0];
    report->phase = phase;
    report->generation = generation;
    report->applied_step = applied;
    report->held_unit_count = phase == WORKER_DEAD ? 0 : job_model_unit_count(&three_spec.model);
}

void three_hold(unsigned node, unsigned first, unsigned end)
{
    struct worker_report *report = &three_reports[node].workers[0];
    unsigned units = job_model_unit_count(&three_spec.model);
    report->holds = true;
    step_record_init(&report->record, report->applied_step + 1, units, LANES);
    for (unsigned unit = 0; unit < units; unit++)
        report->record.unit_squares[unit] = unit;
    for (; first < end; first++)
        report->record.lane_losses[first] = first;
}

void three_decide(void)
{
    struct error error;
    plan_free(three_decision.plan);
    three_decision.plan = NULL;
    assert_int_equal(leader_decide(&three_view, &three_memory, &three_decision, &error), 0);
}

void three_expect_published(uint64_t step, uint64_t commit)
{
    assert_int_equal(three_decision.action, LEADER_PUBLISH);
    assert_int_equal(three_decision.plan->start.source, PLAN_SOURCE_MEMORY);
    assert_int_equal(three_decision.plan->start.resume_step, step);
    assert_int_equal(
        three_decision.plan->start.has_commit ? three_decision.plan->start.commit.step : 0, commit);
}

void three_train_on_two(bool donor)
{
    three_plan->change.planned = true;
    three_plan->layout.replica_count = three_plan->layout.worker_count = 2;
    three_plan->layout.replica_first_lane[2] = LANES;
    three_plan->layout.donor_count = donor;
}
