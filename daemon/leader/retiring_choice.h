/*
 * Choose the next finished job to remove from the cluster's list. The only input is the cluster's
 * keys. No side effects.
 *
 * Finished jobs cost memory in every firnd, and time in every scan of the list, so they are removed
 * automatically: each at the time that its state says, or earlier, one after the other, if there
 * are more than RETIRING_JOBS_MAX. A job is never removed in its first hour, in which clients that
 * wait for its end are told; nor while an operator has asked to resume it; nor while its newest
 * checkpoint is being uploaded to the object store. Only keys are removed: checkpoints, metrics and
 * logs stay on the disks, and the name is free as after `firnctl job remove`.
 */
#pragma once

#include "base/name.h"
#include "daemon/core/mirror.h"

#define RETIRING_JOBS_MAX 200
#define RETIRING_LEAST_S  3600

struct retiring_job {
    char name[NAME_SIZE];
    int64_t spec_revision, state_revision; /* at the time of the choice */
};

/** retiring_choose() - choose the next job to remove
 * @keep_ns: the cluster's default, for a job whose state does not say how long it stays; 0: for
 * ever
 * @unix_ns: the time of day
 * Return: whether there is one */
bool retiring_choose(const struct mirror *mirror, const char *cluster, uint64_t keep_ns,
                     uint64_t unix_ns, struct retiring_job *ret_job) CHECK_RESULT;
