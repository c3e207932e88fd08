/* Follow a job until it is over, for `watch` and `job submit --wait`. */
#pragma once

#include "ctl/cluster/cluster.h"

/**
 * watch_job() - show a live picture on a terminal, plain lines elsewhere
 * @since_ns: events before this realtime are not shown; 0: the last few are
 *
 * Waits for etcd when it becomes unreachable: the job continues without it too. Return: 0 the job
 * has completed; COMMAND_FAILED: it failed or was cancelled (already said); negative: @error.
 */
int watch_job(struct cluster_client *client, const char *job, uint64_t since_ns,
              struct error *error) CHECK_RESULT;

/** watch_line() - append one line about the progress of @job: "step 120/400  loss 2.3456  ..." */
int watch_line(const struct cluster_job *job, struct bytes *into) CHECK_RESULT;
/** watch_brief() - append the line of `top` about @job: its progress, or the reason why it does not
 * run, and its alarm; nothing for a completed or cancelled job */
int watch_brief(const struct cluster_job *job, struct bytes *into) CHECK_RESULT;
/** watch_picture() - append the same with a bar, the layout and the frozen layers, several lines */
int watch_picture(const struct cluster_job *job, struct bytes *into) CHECK_RESULT;
