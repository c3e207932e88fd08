/*
 * One job of one stage and three replicas on nodes a, b and c, generation 6 in force, with
 * hand-made reports.
 */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "elastic/job/job_spec.h"
#include "elastic/leader/leader.h"

#define TIMEOUT_NS (1000 * NS_PER_MS)
#define NODES      3
#define LANES      6

extern struct job_spec three_spec;
extern struct member three_nodes[NODES];
extern struct node_report three_reports[NODES];
extern struct leader_view three_view;
extern struct leader_memory three_memory;
extern struct leader_decision three_decision;
extern struct plan *three_plan;

/** three_setup() - start in generation 6 of the job, which all three nodes run */
int three_setup(void **state);

/** three_teardown() - undo three_setup() */
int three_teardown(void **state);

/** three_say() - make @node report its worker in @phase of @generation, at step @applied */
void three_say(unsigned node, enum worker_phase phase, uint64_t generation, uint64_t applied);

/* Make the worker hold applied + 1 and know the losses of lanes [first, end). */
void three_hold(unsigned node, unsigned first, unsigned end);

/** three_train_on_two() - make plan 6 a planned change to a and b alone; with @donor, c keeps its
 * rank as a donor */
void three_train_on_two(bool donor);

/** three_decide() - take the leader's next decision about three_view */
void three_decide(void);

/** three_expect_published() - check that the decision publishes a plan that continues from @step,
 * with @commit */
void three_expect_published(uint64_t step, uint64_t commit);
