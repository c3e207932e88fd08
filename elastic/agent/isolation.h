/*
 * Decide whether etcd is away for every node, or only out of reach of this node.
 *
 * A node that runs a whole generation by itself commits without any other node. When that node is
 * cut off, its lease ends and another node may restart the job: from then on the isolated node must
 * not commit. But if etcd is away for every node, no node can take over the job, and training
 * continues. A node cannot distinguish the two cases through etcd alone, so it asks other nodes
 * whether they reach etcd.
 *
 * Answers are trusted: nodes of a cluster trust each other. Several nodes that are cut off together
 * confirm to each other that etcd is away, and continue: this is the price of asking few nodes.
 *
 * The node also asks nodes that were registered earlier but not at the last read: they may have
 * come back since, or be gone for good. So their answers count, and their silence does not. If no
 * other node was registered, the node continues until one of these answers that it reaches etcd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Percent of the lease time that is left right after a renewal. A renewal is due every third of the
 * time, so at half of it a renewal has failed on every node that does not reach etcd. */
#define ISOLATION_DOUBT_PERCENT 50
#define ISOLATION_HOLD_PERCENT  12 /* left for a step that is being committed just now */

enum isolation {
    ISOLATION_NONE,   /* etcd has renewed this node's lease: no node has taken over its job */
    ISOLATION_DOUBT,  /* the renewal is late, but there is time to ask */
    ISOLATION_SHARED, /* etcd is away for others too, or there is no other node: continue */
    ISOLATION_ALONE,  /* others reach etcd, or none answers, or none is known to ask: hold */
};

struct isolation_view {
    uint64_t left_ns;         /* until the lease may have run out; 0: it may have run out already */
    uint64_t ttl_ns;          /* `left_ns` right after a renewal */
    bool knows_neighbours;    /* the list of other nodes has been read once */
    unsigned neighbour_count; /* other registered nodes, as of the last read */
    unsigned reaching, away;  /* nodes asked last that answered that they reach etcd, or that they
                                 do not; nodes registered earlier count too */
};

enum isolation isolation_judge(const struct isolation_view *view);

/** isolation_doubts() - return whether this node, if asked, answers that it does not reach etcd */
bool isolation_doubts(uint64_t left_ns, uint64_t ttl_ns);
