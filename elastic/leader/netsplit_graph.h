/*
 * Choose the nodes to leave out of a netsplit, so that the rest reach each other pairwise; the
 * leader itself reaches them all. The result is a smallest vertex cover of the graph of cuts, found
 * by brute force over all sets, because few nodes have cuts at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NETSPLIT_NODES_MAX 16 /* 2^16 sets at most */

struct cut_node {
    unsigned slot_count; /* the cost of leaving the node out */
    bool stays;          /* the node cannot be left out */
    uint32_t cut_from;   /* bit set of the nodes that it does not reach, or that do not reach it */
};

/**
 * netsplit_graph_leave_out() - choose the set to leave out, a bit for each node
 * @nodes: at most NETSPLIT_NODES_MAX; `cut_from` of both ends of a cut name each other
 * @may_go: return whether all nodes of @set may be left out together, called only for vertex
 * covers; NULL: any may
 *
 * Among the vertex covers that may go, the set with the fewest nodes wins; then the one with the
 * fewest slots; then the one that keeps the first nodes.
 *
 * Return: the set; 0: there is no cut, or no vertex cover may go.
 */
uint32_t netsplit_graph_leave_out(const struct cut_node *nodes, unsigned count,
                                  bool (*may_go)(const void *context, uint32_t set),
                                  const void *context);
