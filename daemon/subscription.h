/*
 * Choose the cluster's keys that this node follows, and run the watch that feeds them to the
 * mirror.
 *
 * Registrations, reports and progress of nodes concern only the leader: if all nodes followed them,
 * each update would cost one message per node. So a node that becomes the leader follows more keys,
 * and a former leader fewer. Until the new watch has delivered its snapshot the mirror is partial,
 * and nothing is planned from it.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct cluster_keys;
struct daemon;

/**
 * subscription_set() - follow the keys of every node, or with @all the leader's keys as well
 *
 * Replace the previous watch; allowed from within one of its callbacks. Return: 0 (also when the
 * same keys are followed already), -ENOMEM: the previous watch stays.
 */
int subscription_set(struct daemon *daemon, bool all) CHECK_RESULT;
/** subscription_stop() - stop the watch; no more updates follow */
void subscription_stop(struct cluster_keys *keys);
