/*
 * Which of the cluster's keys this node follows, and the watch that feeds them to the mirror.
 *
 * What nodes say (registrations, reports, progress) concerns the leader alone: if all followed it,
 * each node's word would cost a message to every other node. So a node that comes to lead follows
 * more from then on, and one that leads no more follows less; until the new watch has told what
 * there is the mirror is partial, and nobody plans with it.
 */
#pragma once

#include "daemon/core/daemon.h"

/**
 * subscription_set() - follow what every node does, or with @all what a leader does
 *
 * Replaces the watch before; also from within one of its callbacks. Return: 0 (also when that is
 * followed already), -ENOMEM: what was followed before still is.
 */
int subscription_set(struct daemon *daemon, bool all) CHECK_RESULT;
/** subscription_stop() - nothing is told any more */
void subscription_stop(struct daemon *daemon);
