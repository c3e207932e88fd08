/* Test rig: feeds events to one node's agent one by one, and keeps its last actions and report. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "base/clock.h"
#include "elastic/agent/agent.h"

#define TIMEOUT_NS  (1000 * NS_PER_MS)
#define LINKS       3
#define INCARNATION 7

extern struct agent *rig_agent;
extern struct agent_actions rig_actions;
extern struct worker_report rig_said;
extern struct node_report rig_last_report; /* the last report that the agent wrote */
extern uint64_t rig_now_ns;
extern bool rig_on_probation;

/** rig_setup() - start an agent on a node of LINKS slots */
int rig_setup(void **state);

/** rig_teardown() - free the agent */
int rig_teardown(void **state);

/** rig_step() - feed @event, and keep the actions and the report that follow */
void rig_step(struct agent_event event);

/** rig_count() - count the actions of @type for @slot among the last ones */
unsigned rig_count(enum agent_action_type type, unsigned slot);

/** rig_find() - return the first of the last actions of @type, or NULL */
const struct agent_action *rig_find(enum agent_action_type type);

/** rig_entry() - return the entry of @slot in the last report, or NULL */
const struct worker_report *rig_entry(unsigned slot);

#define assert_reported(slot, expected)                                                            \
    do {                                                                                           \
        assert_non_null(rig_entry(slot));                                                          \
        assert_int_equal(rig_entry(slot)->phase, expected);                                        \
    } while (0)

/* Make a plan of one stage, with one replica for each given slot; instance 0: fresh. */
struct plan *rig_make_plan(uint64_t generation, bool planned, unsigned count, const unsigned *slots,
                           const uint64_t *instances);

/** rig_feed_plan() - feed @plan as an event of @type */
void rig_feed_plan(enum agent_event_type type, struct plan *plan);

/** rig_feed_status() - feed the status of the worker @instance on @slot */
void rig_feed_status(unsigned slot, uint64_t instance, enum worker_phase phase,
                     uint64_t generation);

/* Feed the status of a worker that has obeyed the plan of @generation, which leaves it out. */
void rig_feed_aside(unsigned slot, uint64_t instance, uint64_t generation);

/** rig_feed_up() - feed that the worker on @slot is connected */
void rig_feed_up(unsigned slot);

/** rig_feed_exit() - feed that the worker on @slot has exited with @code */
void rig_feed_exit(unsigned slot, int code);

/** rig_feed_tick() - feed the time @at_ns */
void rig_feed_tick(uint64_t at_ns);

/* Run slots 0 and 1 in generation 1 as instances 10 and 11. */
void rig_run_two(void);

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
