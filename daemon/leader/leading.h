/*
 * What only the leader does: build each job's view from the mirror, ask elastic/leader/leader.h
 * what to do, and write the answer in a transaction guarded by leadership and by the plan that the
 * view was made from.
 */
#pragma once

#include "daemon/core/daemon.h"

/** leading_new() - @daemon is borrowed. Return: 0, -ENOMEM */
int leading_new(struct daemon *daemon, struct leading **ret_leading) CHECK_RESULT;
void leading_free(struct leading *leading);
/** leading_run() - look at every job; does nothing while this node does not lead */
void leading_run(struct leading *leading);
