/* Rules between keys of a job: what no single key's range can say. */
#pragma once

#include "elastic/job/job_problems.h"

/**
 * job_rules_check() - add a problem for every rule that @spec breaks
 *
 * A rule whose keys did not all get a value (job_problems_good()) is left out.
 */
void job_rules_check(struct job_problems *problems, const struct job_spec *spec);
