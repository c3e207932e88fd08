/*
 * Which job that is over leaves the cluster's list next: decided from the cluster's keys. Does
 * nothing itself.
 *
 * Jobs that are over cost every firnd memory and every look at the list time, so they go by
 * themselves: each at the time that its state says, or earlier, one after the other, where there
 * are more than RETIRING_JOBS_MAX; never in the first hour, in which whoever waits for the end
 * hears of it; not while somebody has asked that it go on, nor while its newest checkpoint is on
 * its way to the object store. Only keys go: checkpoints, metrics and logs stay on the disks, and
 * the name is free as after `firnctl job remove`.
 */
#pragma once

#include "base/name.h"
#include "daemon/core/mirror.h"

#define RETIRING_JOBS_MAX 200
#define RETIRING_LEAST_S  3600

struct retiring_job {
    char name[NAME_SIZE];
    int64_t spec_revision, state_revision; /* as they were when it was chosen */
};

/** retiring_choose() - @keep_ns: the cluster's, for a job whose state does not say until when it
 * stays; 0: all stay for ever. @unix_ns: the time of day. Return: whether there is one */
bool retiring_choose(const struct mirror *mirror, const char *cluster, uint64_t keep_ns,
                     uint64_t unix_ns, struct retiring_job *ret_job) CHECK_RESULT;
