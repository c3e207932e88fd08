/*
 * What an earlier firnd of this node said about the plan in force of a job: the agent must know it
 * before it starts workers (elastic/agent/agent.h, AGENT_REPORTED). Only a leader's mirror has
 * reports, so this node's own is read from etcd, and put into the mirror, before the job is opened.
 */
#pragma once

#include "daemon/core/daemon.h"

/** earlier_report_new() - @daemon is borrowed. Return: 0; -ENOMEM, or why the loop gives no timer
 */
int earlier_report_new(struct daemon *daemon, struct earlier_report **ret_earlier) CHECK_RESULT;
void earlier_report_free(struct earlier_report *earlier);
/** earlier_report_known() - is it in the mirror, or known not to be there? If not it is asked for,
 * and daemon_wake() follows */
bool earlier_report_known(struct earlier_report *earlier, const char *job);
/** earlier_report_forget() - the mirror has been filled anew */
void earlier_report_forget(struct earlier_report *earlier);
