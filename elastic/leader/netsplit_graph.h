/*
 * Nodes that do not reach each other, though whoever plans reaches them all: which are left out, so
 * that the rest reach each other pairwise. A smallest vertex cover of the graph of cuts, found by
 * looking at every set: few nodes have cuts at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CUT_NODES_MAX 16 /* 2^16 sets at most */

struct cut_node {
    unsigned slot_count; /* what leaving it out costs */
    bool stays;          /* it cannot be left out */
    uint32_t cut_from;   /* nodes that it does not reach, or that do not reach it: a bit each */
};

/**
 * netsplit_graph_leave_out() - the set to leave out: a bit for each node
 * @nodes: at most CUT_NODES_MAX; `cut_from` of both ends of a cut name each other
 * @may_go: whether all nodes of @set may be left out together, asked of sets that would do; NULL:
 * any may
 *
 * Of the sets that would do and may go, the one with the fewest nodes; of these the one with the
 * fewest slots; of these the one that keeps the first nodes.
 *
 * Return: the set; 0: nothing is cut, or no set that would do may go.
 */
uint32_t netsplit_graph_leave_out(const struct cut_node *nodes, unsigned count,
                                  bool (*may_go)(const void *context, uint32_t set),
                                  const void *context);
