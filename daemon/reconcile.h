/*
 * Reconcile this node's state, its jobs and, while it is the leader, every job's plan with the
 * mirror: once per turn of the loop in which something changed.
 */
#pragma once

#include "base/compiler.h"

struct daemon;

/** reconcile_init() - make daemon_wake() work from now on */
int reconcile_init(struct daemon *daemon) CHECK_RESULT;
void reconcile_done(struct daemon *daemon);
