/*
 * Jobs that are over leave the cluster's list by themselves (daemon/leader/retiring_choice.h says
 * which): the leader deletes their keys, one job at a time, as `firnctl job remove` does.
 *
 * Everything else that decides here goes by monotonic time; days of rest, through which leaders
 * change, can only be told by the time of day. So a leader waits for a while before it believes its
 * clock: one that has just been switched on may not be set yet. The worst that a wrong clock does
 * is an entry of the list that goes too early or too late.
 */
#pragma once

#include "base/compiler.h"

struct daemon;
struct retiring;

/** retiring_new() - @daemon is borrowed. Return: 0; -ENOMEM, or why the loop gives no timer */
int retiring_new(struct daemon *daemon, struct retiring **ret_retiring) CHECK_RESULT;
void retiring_free(struct retiring *retiring);
