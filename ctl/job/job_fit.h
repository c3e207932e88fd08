/* Check whether a cluster can run a job as requested. */
#pragma once

#include "ctl/cluster/cluster.h"
#include "elastic/job/job_spec.h"

/**
 * job_fit() - check for a layout of @spec with @desired on all slots in service, used or not
 *
 * Return: 0, also if no slot is in service, which proves nothing; -ENOSPC with the reason;
 * -ENOMEM.
 */
int job_fit(const struct cluster *cluster, const struct job_spec *spec,
            const struct desired_record *desired, struct error *error) CHECK_RESULT;
