/*
 * Fetch the report that an earlier firnd of this node wrote for the plan in force of a job, or for
 * the generation that a planned one follows. The agent must know it before it starts workers
 * (elastic/agent/agent.h, AGENT_REPORTED). Only a leader's mirror has reports, so this node's own
 * report is read from etcd and put into the mirror before the job is opened.
 */
#pragma once

#include <stdbool.h>

#include "base/compiler.h"

struct daemon;
struct earlier_report;
struct mirror_entry;

/** earlier_report_new() - @daemon is borrowed. Return: 0; -ENOMEM; or the error of creating a
 * loop timer */
int earlier_report_new(struct daemon *daemon, struct earlier_report **ret_earlier) CHECK_RESULT;
void earlier_report_free(struct earlier_report *earlier);
/** earlier_report_known() - return whether the report is in the mirror or known to be absent; if
 * not, request it; daemon_wake() follows */
bool earlier_report_known(struct earlier_report *earlier, const char *job);
/** earlier_report_find() - return the report in the mirror; NULL: none, or of an earlier job of
 * this name, which a follower does not see removed. Valid until the mirror changes */
const struct mirror_entry *earlier_report_find(const struct daemon *daemon, const char *job);
/** earlier_report_forget() - drop the answers because the mirror was filled anew */
void earlier_report_forget(struct earlier_report *earlier);
