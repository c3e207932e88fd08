/*
 * Which worker keeps a copy of which stage, so that the loss of any one node leaves every unit
 * somewhere (worker/step/shadow.h says how the copy stays equal).
 */
#pragma once

#include "elastic/planner/planner.h"

/**
 * shadow_stages_assign() - fill plan->shadows, whose layout part is filled
 * @input: the units that the layout was made from, and the slots with their memory
 *
 * A stage that has replicas on two nodes needs no copy. Every other one gets a worker of another
 * node: the largest stages choose first, each the worker that is least filled by its own stage and
 * the copies it has so far, among those that have room and keep fewer than PLAN_SHADOWS_MAX; the
 * lowest rank of equals.
 * A stage for which nobody has room stays without: shadow_stages_bare_stages() counts it.
 *
 * Return: 0, -ENOMEM (@plan as it was).
 */
int shadow_stages_assign(const struct planner_input *input, struct plan *plan) CHECK_RESULT;

/**
 * shadow_stages_layout() - planner_run() and shadow_stages_assign() of the layout that it finds
 *
 * The planner keeps a replica on one node, where there may be nobody to keep copies. So where
 * stages are bare, the slots are planned with once more, at most half as many of each node as the
 * layout has workers; that layout is taken if it leaves no stage bare and its step is not longer by
 * more than a quarter. Return, and @ret_choices (of the first planning): as planner_run().
 */
int shadow_stages_layout(const struct planner_input *input, struct plan *plan,
                         struct planner_choice *ret_choices, unsigned *ret_choice_count,
                         struct error *error) CHECK_RESULT;

/** shadow_stages_bare_stages() - how many stages of @plan the loss of one node would leave without
 * state
 */
unsigned shadow_stages_bare_stages(const struct plan *plan);
