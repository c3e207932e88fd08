/*
 * Once per turn of the loop in which something changed: this node's state, its jobs, and, while it
 * leads, every job's plan are brought in line with the mirror.
 */
#pragma once

#include "daemon/core/daemon.h"

/** reconcile_init() - from now on daemon_wake() works */
int reconcile_init(struct daemon *daemon) CHECK_RESULT;
void reconcile_done(struct daemon *daemon);
