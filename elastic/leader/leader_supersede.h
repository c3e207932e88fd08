/* Planned changes that cannot begin because a worker cannot hear of the plan, or has given up
 * waiting for it. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

/**
 * leader_supersede() - replace a planned change that has not begun by another plan if a node that
 * must hear of it has been gone for a while, or a new process has given up waiting
 *
 * If no plan is possible without that node, adds to the job's text why the job waits.
 *
 * Return: 0; -ENOMEM, -EINVAL as leader_decide().
 */
int leader_supersede(struct leader_context *context) CHECK_RESULT;

/** leader_running_generation() - return the generation in which all members with state train while
 * the planned change in force has not begun; 0: the change has begun, or broke */
uint64_t leader_running_generation(const struct leader_context *context);

/** leader_change_waits() - return whether the plan in force is a planned change that has not begun,
 * and the generation that it follows runs */
bool leader_change_waits(const struct leader_context *context);

/** leader_gave_up() - return whether @member is a process that was started for the planned change
 * in force, and has given up waiting for it or died: nothing is lost with it */
bool leader_gave_up(const struct leader_context *context, const struct roster_member *member);

/** leader_change_is_dead() - return whether such a process of the planned change in force is gone,
 * or the node of a donor: the change cannot begin, and only leader_supersede() brings back workers
 * that have left their step for it */
bool leader_change_is_dead(const struct leader_context *context);
