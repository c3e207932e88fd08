/* A planned change that cannot begin, because somebody cannot hear of it. Private to the leader. */
#pragma once

#include "elastic/leader_internal.h"

/**
 * leader_supersede() - put another plan in the place of a planned one that has not begun, when a
 * node that must hear of it has been gone for a while
 *
 * Adds to what is said why it waits, if no plan is possible without that node. Return: 0; -ENOMEM,
 * -EINVAL as leader_decide().
 */
int leader_supersede(struct leader_context *context) CHECK_RESULT;
