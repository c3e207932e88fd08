#include "lib/elastic/agent_rig.h"

#include <stdio.h>
#include <string.h>

struct agent *rig_agent;
struct agent_actions rig_actions;
struct worker_report rig_said;
struct node_report rig_last_report;
uint64_t rig_now_ns;
bool rig_on_probation;

int rig_setup(void **state)
{
    (void)state;
    rig_now_ns = NS_PER_SECOND;
    rig_on_probation = false;
    rig_agent = agent_new("job", "a", INCARNATION, LINKS, TIMEOUT_NS);
    memset(&rig_last_report, 0, sizeof(rig_last_report));
    return !rig_agent;
}

int rig_teardown(void **state)
{
    (void)state;
    agent_free(rig_agent);
    return 0;
}

void rig_step(struct agent_event event)
{
    event.now_ns = rig_now_ns;
    agent_step(rig_agent, &event, &rig_actions);
    for (unsigned i = 0; i < rig_actions.count; i++)
        if (rig_actions.list[i].type == AGENT_REPORT)
            memcpy(&rig_last_report, agent_last_report(rig_agent), sizeof(rig_last_report));
}

unsigned rig_count(enum agent_action_type type, unsigned slot)
{
    unsigned count = 0;
    for (unsigned i = 0; i < rig_actions.count; i++)
        count += rig_actions.list[i].type == type && rig_actions.list[i].slot == slot;
    return count;
}

const struct agent_action *rig_find(enum agent_action_type type)
{
    for (unsigned i = 0; i < rig_actions.count; i++)
        if (rig_actions.list[i].type == type)
            return &rig_actions.list[i];
    fail();
    return NULL;
}

const struct worker_report *rig_entry(unsigned slot)
{
    for (unsigned i = 0; i < rig_last_report.worker_count; i++)
        if (rig_last_report.workers[i].slot == slot)
            return &rig_last_report.workers[i];
    return NULL;
}

struct plan *rig_make_plan(uint64_t generation, bool planned, unsigned count, const unsigned *slots,
                           const uint64_t *instances)
{
    struct plan *plan = plan_new();
    assert_non_null(plan);
    plan->generation = generation;
    plan->change.planned = planned;
    plan->layout.stage_count = count > 0 ? 1 : 0;
    plan->layout.replica_count = plan->layout.worker_count = count;
    plan->layout.workers = calloc(count + 1, sizeof(*plan->layout.workers));
    plan->layout.stage_first_unit = calloc(2, sizeof(unsigned));
    plan->layout.replica_first_lane = calloc(count + 1, sizeof(unsigned));
    assert_true(plan->layout.workers && plan->layout.stage_first_unit &&
                plan->layout.replica_first_lane);
    snprintf(plan->links.key, sizeof(plan->links.key), "key%llu", (unsigned long long)generation);
    for (unsigned i = 0; i < count; i++) {
        snprintf(plan->layout.workers[i].node, NAME_SIZE, "a");
        plan->layout.workers[i].slot = slots[i];
        plan->layout.workers[i].instance = instances ? instances[i] : 0;
    }
    return plan;
}

void rig_feed_plan(enum agent_event_type type, struct plan *plan)
{
    rig_step((struct agent_event){.type = type, .plan = plan});
    plan_free(plan);
}

void rig_feed_status(unsigned slot, uint64_t instance, enum worker_phase phase, uint64_t generation)
{
    bool state = phase == WORKER_RUNNING || phase == WORKER_STUCK;
    memset(&rig_said, 0, sizeof(rig_said));
    rig_said.slot = slot;
    rig_said.instance = instance;
    rig_said.phase = phase;
    rig_said.generation = generation;
    rig_said.held_unit_count = state ? 4 : 0;
    rig_step((struct agent_event){.type = AGENT_WORKER_STATUS, .slot = slot, .status = &rig_said});
}

void rig_feed_aside(unsigned slot, uint64_t instance, uint64_t generation)
{
    rig_said = (struct worker_report){.slot = slot,
                                      .instance = instance,
                                      .phase = WORKER_STUCK,
                                      .cause = CAUSE_LEFT_OUT,
                                      .generation = generation,
                                      .held_unit_count = 4};
    rig_step((struct agent_event){.type = AGENT_WORKER_STATUS, .slot = slot, .status = &rig_said});
}

void rig_feed_up(unsigned slot)
{
    rig_step((struct agent_event){.type = AGENT_WORKER_UP, .slot = slot});
}

void rig_feed_exit(unsigned slot, int code)
{
    struct agent_event event = {.type = AGENT_WORKER_EXIT,
                                .slot = slot,
                                .exit_code = code,
                                .on_probation = rig_on_probation};
    snprintf(event.text, sizeof(event.text), "the last words");
    rig_step(event);
}

void rig_feed_tick(uint64_t at_ns)
{
    rig_now_ns = at_ns;
    rig_step((struct agent_event){.type = AGENT_TICK});
}

void rig_run_two(void)
{
    rig_feed_plan(AGENT_PLAN, rig_make_plan(1, false, 2, (unsigned[]){0, 1}, NULL));
    for (unsigned slot = 0; slot < 2; slot++) {
        rig_feed_up(slot);
        rig_feed_status(slot, 10 + slot, WORKER_STARTING, 0);
        rig_feed_status(slot, 10 + slot, WORKER_PREPARED, 1);
        rig_feed_status(slot, 10 + slot, WORKER_RUNNING, 1);
    }
}
