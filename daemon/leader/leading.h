/*
 * The leader's work: build each job's view from the mirror, call elastic/leader/leader.h for a
 * decision, and write the decision in a transaction guarded by leadership and by the plan from
 * which the view was made.
 */
#pragma once

#include "base/compiler.h"

struct daemon;
struct leading;

/** leading_new() - @daemon is borrowed. Return: 0, -ENOMEM */
int leading_new(struct daemon *daemon, struct leading **ret_leading) CHECK_RESULT;
void leading_free(struct leading *leading);
/** leading_run() - decide for every job; does nothing while this node is not the leader */
void leading_run(struct leading *leading);
