/* Following a job until it is over: what `watch` and `job submit --wait` show. */
#pragma once

#include "ctl/cluster/cluster.h"

/**
 * watch_job() - a live picture on a terminal, plain lines elsewhere
 * @since_ns: events before this realtime are not shown; 0: the last few are
 *
 * An etcd that goes away meanwhile is waited for: the job goes on without it too. Return: 0 the job
 * has completed; COMMAND_FAILED: it failed or was cancelled (already said); negative: @error.
 */
int watch_job(struct cluster_client *store, const char *job, uint64_t since_ns,
              struct error *error) CHECK_RESULT;

/** watch_line() - "step 120/400  loss 2.3456  ...", one line about how far @job is */
int watch_line(const struct cluster_job *job, struct bytes *into) CHECK_RESULT;
/** watch_brief() - what `top` says of @job: how far it is, or why it does not run, and its alarm;
 * nothing of one that was completed or cancelled */
int watch_brief(const struct cluster_job *job, struct bytes *into) CHECK_RESULT;
/** watch_picture() - the same with a bar, the layout and what is frozen, several lines */
int watch_picture(const struct cluster_job *job, struct bytes *into) CHECK_RESULT;
