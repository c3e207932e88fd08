/* What is worth a word about a node in `firnctl node list`: whatever keeps it, or a slot of it,
 * from doing its part, and what its configuration must have wrong. */
#pragma once

#include "ctl/cluster/cluster.h"

#define NODE_REMARKS_SIZE 512

/** node_remarks() - of a node of @cluster, separated by "; "; "" when all is well */
void node_remarks(const struct cluster *cluster, const struct cluster_node *node,
                  char ret_text[NODE_REMARKS_SIZE]);
