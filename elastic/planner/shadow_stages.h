/*
 * Choose the workers that keep shadow copies of stages, so that every unit survives the loss of any
 * one node. worker/step/shadow.h keeps the copies equal.
 */
#pragma once

#include "elastic/plan/plan.h"
#include "elastic/planner/planner.h"

/**
 * shadow_stages_assign() - fill plan->shadows; the layout part of @plan is filled already
 * @input: the planner's input of that layout: units, and slots with their memory
 *
 * A stage that has replicas on two nodes needs no copy. Every other stage gets a worker of another
 * node. The largest stage is assigned first. Among the workers that have room and keep fewer than
 * PLAN_SHADOWS_MAX copies, the one with the least memory used by its own stage and its copies is
 * chosen; ties go to the lowest rank. A stage stays without a copy when no worker has room;
 * shadow_stages_bare_stages() counts it.
 *
 * Return: 0, -ENOMEM (@plan is unchanged).
 */
int shadow_stages_assign(const struct planner_input *input, struct plan *plan) CHECK_RESULT;

/**
 * shadow_stages_layout() - find a layout with planner_run() and assign its shadows
 *
 * Deferred weight gradients (plan_layout.deferred) leave the room that copies need. The planner
 * keeps a replica on one node, which may leave stages without a copy. In that case the planner runs
 * once more with at most half as many slots on each node as the layout has workers. The second
 * layout is taken if every stage has a copy and its step is at most a quarter longer.
 * Return, and @ret_choices (of the first planning): as planner_run().
 */
int shadow_stages_layout(const struct planner_input *input, struct plan *plan,
                         struct planner_choice *ret_choices, unsigned *ret_choice_count,
                         struct error *error) CHECK_RESULT;

/**
 * shadow_stages_bare_stages() - return the number of stages of @layout whose state the loss of one
 * node would destroy
 */
unsigned shadow_stages_bare_stages(const struct plan_layout *layout);
