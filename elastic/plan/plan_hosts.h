/* The nodes of a plan whose firnd serves its kept outputs of frozen layers to the others
 * (worker/cache/outputs_fetch.h). Only for jobs that keep outputs and run on more than one node. */
#pragma once

#include "base/name.h"

#define PLAN_HOSTS_MAX 4096

struct plan_host {
    char node[NAME_SIZE];
    char http[ADDRESS_SIZE]; /* of its firnd */
};

struct plan_hosts {
    unsigned count;
    struct plan_host *list; /* owned by the plan */
};
