/*
 * Is etcd away, or is it only this node that does not reach it?
 *
 * A node that runs a whole generation by itself needs nobody to commit. When it is cut off, its
 * lease ends and another node may begin the job anew: from then on it must not commit any more. But
 * where etcd is away for everybody, nobody can take anything over, and training goes on. The node
 * cannot tell these apart by looking at etcd, so it asks other nodes whether they reach it.
 *
 * Answers are trusted: nodes of a cluster trust each other. Where several nodes are cut off
 * together, they tell each other that etcd is away, and go on: that is the price of asking few.
 *
 * Nodes that were registered earlier, and no more when that was read last, are asked, too: one may
 * be back since. They may as well be gone for good, so what they say counts, and their silence does
 * not: where nobody else was registered, the node goes on until one of them says that it reaches
 * etcd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of the time for which a lease that was just renewed is safe. Renewals come every third, so at
 * half of it one has failed, on every node that does not reach etcd. */
#define ISOLATION_DOUBT_PERCENT 50
#define ISOLATION_HOLD_PERCENT  12 /* left for a step that is being committed just now */

enum isolation {
    ISOLATION_NONE,   /* etcd has renewed this node's lease: nobody has taken anything over */
    ISOLATION_DOUBT,  /* it should have, but there is time to ask */
    ISOLATION_SHARED, /* etcd is away for others too, or nobody knows of any others: go on */
    ISOLATION_ALONE,  /* others reach etcd, or nobody answers, or nobody is known to ask: hold */
};

struct isolation_view {
    uint64_t left_ns;         /* until the lease may have run out; 0: it may have */
    uint64_t ttl_ns;          /* what is left when it has just been renewed */
    bool knows_neighbours;    /* it has read once who they are */
    unsigned neighbour_count; /* other nodes that were registered, as far as is known */
    unsigned reaching, away;  /* of those asked last, who answered that they reach etcd, or do not;
                                 also of those who were registered earlier */
};

enum isolation isolation_judge(const struct isolation_view *view);

/** isolation_doubts() - what a node that is asked says of itself: it does not reach etcd just now
 */
bool isolation_doubts(uint64_t left_ns, uint64_t ttl_ns);
