/* Remarks about a node in `firnctl node list`: conditions that keep the node or one of its slots
 * from working, and mistakes in its configuration. */
#pragma once

#include "ctl/cluster/cluster.h"

#define NODE_REMARKS_SIZE 512

/** node_remarks() - list the remarks about a node of @cluster, separated by "; ", "" if none */
void node_remarks(const struct cluster *cluster, const struct cluster_node *node,
                  char ret_text[NODE_REMARKS_SIZE]);
