/*
 * Remove finished jobs from the cluster's list (daemon/leader/retiring_choice.h chooses them): the
 * leader deletes their keys, one job at a time, as `firnctl job remove` does.
 *
 * All other decisions use monotonic time. Days of rest, through which leaders change, can be
 * measured only in wall-clock time. So a new leader waits for a while before it trusts its clock:
 * the clock of a machine that has just been switched on may not be set yet. At worst, a wrong clock
 * removes an entry of the list too early or too late.
 */
#pragma once

#include "base/compiler.h"

struct daemon;
struct retiring;

/** retiring_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of creating a loop
 * timer */
int retiring_new(struct daemon *daemon, struct retiring **ret_retiring) CHECK_RESULT;
void retiring_free(struct retiring *retiring);
