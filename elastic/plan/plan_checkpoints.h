/* The knowledge of a plan's workers about the checkpoints of their job: the newest one and, if
 * checkpoint.copies is above 1, the nodes that keep copies. */
#pragma once

#include <stdint.h>

#include "base/name.h"

#define PLAN_COPY_NODES_MAX 4096
#define PLAN_COPIES_MAX     8 /* of one share of a checkpoint */

/* A node that keeps files of checkpoints, see elastic/copies/copies.h. */
struct plan_copy_node {
    char node[NAME_SIZE];
    char http[ADDRESS_SIZE]; /* of its firnd */
    char domain[NAME_SIZE];  /* nodes of one domain may fail together */
};

struct plan_checkpoints {
    uint64_t recorded_step; /* of the newest checkpoint that was recorded and within reach when the
                               plan was made; 0: none */
    unsigned copies;        /* per share of a checkpoint; 0: checkpoints are in one shared folder */
    unsigned copy_node_count;
    struct plan_copy_node *copy_nodes;
};
