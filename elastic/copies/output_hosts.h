/* The nodes of a plan that serve kept outputs of frozen layers to each other. */
#pragma once

#include "elastic/copies/member.h"
#include "elastic/job/job_elasticity.h"

/** output_hosts_fill() - list these nodes in @plan, if the job with @freezing keeps outputs and
 * more than one of its nodes can be asked. -ENOMEM */
int output_hosts_fill(struct plan *plan, const struct job_freezing *freezing,
                      const struct member *nodes, unsigned node_count) CHECK_RESULT;
