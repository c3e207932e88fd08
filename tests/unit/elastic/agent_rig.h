/* Test rig: feeds events to one node's agent one by one, and keeps its last actions and report. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "elastic/agent/agent.h"

#define TIMEOUT_NS (1000 * NS_PER_MS)
#define LINKS      3

static struct agent *agent;
static struct agent_actions actions;
static struct worker_report said;
static struct node_report last_report; /* the last report that the agent wrote */
static uint64_t now_ns;
static bool on_probation;

static inline int setup(void **state)
{
    (void)state;
    now_ns = NS_PER_SECOND;
    on_probation = false;
    agent = agent_new("job", "a", LINKS, TIMEOUT_NS);
    memset(&last_report, 0, sizeof(last_report));
    return !agent;
}

static inline int teardown(void **state)
{
    (void)state;
    agent_free(agent);
    return 0;
}

static inline void step(struct agent_event event)
{
    event.now_ns = now_ns;
    agent_step(agent, &event, &actions);
    for (unsigned i = 0; i < actions.count; i++)
        if (actions.list[i].type == AGENT_REPORT)
            memcpy(&last_report, agent_last_report(agent), sizeof(last_report));
}

static inline unsigned count_of(enum agent_action_type type, unsigned slot)
{
    unsigned count = 0;
    for (unsigned i = 0; i < actions.count; i++)
        count += actions.list[i].type == type && actions.list[i].slot == slot;
    return count;
}

static inline const struct agent_action *find(enum agent_action_type type)
{
    for (unsigned i = 0; i < actions.count; i++)
        if (actions.list[i].type == type)
            return &actions.list[i];
    fail();
    return NULL;
}

static inline const struct worker_report *entry_of(unsigned slot)
{
    for (unsigned i = 0; i < last_report.worker_count; i++)
        if (last_report.workers[i].slot == slot)
            return &last_report.workers[i];
    return NULL;
}

#define assert_reported(slot, expected)                                                            \
    do {                                                                                           \
        assert_non_null(entry_of(slot));                                                           \
        assert_int_equal(entry_of(slot)->phase, expected);                                         \
    } while (0)

/* Make a plan of one stage, with one replica for each given slot; instance 0: fresh. */
static inline struct plan *make_plan(uint64_t generation, bool planned, unsigned count,
                                     const unsigned *slots, const uint64_t *instances)
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

static inline void feed_plan(enum agent_event_type type, struct plan *plan)
{
    step((struct agent_event){.type = type, .plan = plan});
    plan_free(plan);
}

static inline void feed_status(unsigned slot, uint64_t instance, enum worker_phase phase,
                               uint64_t generation)
{
    bool state = phase == WORKER_RUNNING || phase == WORKER_STUCK;
    memset(&said, 0, sizeof(said));
    said.slot = slot;
    said.instance = instance;
    said.phase = phase;
    said.generation = generation;
    said.held_unit_count = state ? 4 : 0;
    step((struct agent_event){.type = AGENT_WORKER_STATUS, .slot = slot, .status = &said});
}

/* Feed the status of a worker that has obeyed the plan of @generation, which leaves it out. */
static inline void feed_aside(unsigned slot, uint64_t instance, uint64_t generation)
{
    said = (struct worker_report){.slot = slot,
                                  .instance = instance,
                                  .phase = WORKER_STUCK,
                                  .cause = CAUSE_LEFT_OUT,
                                  .generation = generation,
                                  .held_unit_count = 4};
    step((struct agent_event){.type = AGENT_WORKER_STATUS, .slot = slot, .status = &said});
}

static inline void feed_up(unsigned slot)
{
    step((struct agent_event){.type = AGENT_WORKER_UP, .slot = slot});
}

static inline void feed_exit(unsigned slot, int code)
{
    struct agent_event event = {
        .type = AGENT_WORKER_EXIT, .slot = slot, .exit_code = code, .on_probation = on_probation};
    snprintf(event.text, sizeof(event.text), "the last words");
    step(event);
}

static inline void feed_tick(uint64_t at_ns)
{
    now_ns = at_ns;
    step((struct agent_event){.type = AGENT_TICK});
}

/* Run slots 0 and 1 in generation 1 as instances 10 and 11. */
static inline void run_two(void)
{
    feed_plan(AGENT_PLAN, make_plan(1, false, 2, (unsigned[]){0, 1}, NULL));
    for (unsigned slot = 0; slot < 2; slot++) {
        feed_up(slot);
        feed_status(slot, 10 + slot, WORKER_STARTING, 0);
        feed_status(slot, 10 + slot, WORKER_PREPARED, 1);
        feed_status(slot, 10 + slot, WORKER_RUNNING, 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
