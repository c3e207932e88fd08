/* Rules between keys of a job, which no range of a single key can express. */
#pragma once

#include "elastic/job/job_problems.h"
#include "elastic/job/job_spec.h"

/**
 * job_rules_check() - add a problem for every rule that @spec breaks
 *
 * A rule is skipped if one of its keys has no usable value (job_problems_good()).
 */
void job_rules_check(struct job_problems *problems, const struct job_spec *spec);
