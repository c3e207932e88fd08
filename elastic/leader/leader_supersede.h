/* A planned change that cannot begin, because somebody cannot hear of it or does not wait for it
 * any longer. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

/**
 * leader_supersede() - put another plan in the place of a planned one that has not begun, when a
 * node that must hear of it has been gone for a while, or a new process has given up waiting
 *
 * Adds to what is said why it waits, if no plan is possible without that node. Return: 0; -ENOMEM,
 * -EINVAL as leader_decide().
 */
int leader_supersede(struct leader_context *context) CHECK_RESULT;

/** leader_running_generation() - the one that all train in who have state, while the planned change
 * in force has not begun; 0: it has begun, or broke */
uint64_t leader_running_generation(const struct leader_context *context);

/** leader_gave_up() - a process without state that does not wait any longer for the planned change
 * in force: nothing is lost with it */
bool leader_gave_up(const struct leader_context *context, const struct roster_member *member);
