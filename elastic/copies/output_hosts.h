/* The nodes of a plan that give each other kept outputs of frozen layers. */
#pragma once

#include "elastic/copies/member.h"
#include "elastic/job/job_elasticity.h"

/** output_hosts_fill() - name the nodes of @plan in it, where a job with @freezing keeps outputs
 * and more than one of its nodes can be asked. -ENOMEM */
int output_hosts_fill(struct plan *plan, const struct job_freezing *freezing,
                      const struct member *nodes, unsigned node_count) CHECK_RESULT;
