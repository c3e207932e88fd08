/*
 * A node that must be empty by a given time: is its state handed over to peers, or is an emergency
 * checkpoint taken?
 *
 * Handing over is the better way, because training goes on without a restart; so it is left only
 * when it does not fit into the time that is left. State that somebody else holds too needs no
 * handing over: then the node may simply go. Both ways give the same bits. A pure function.
 */
#pragma once

#include <stdint.h>

struct preemption {
    uint64_t left_ns;        /* until the node goes; UINT64_MAX: nobody says when */
    uint64_t alone_bytes;    /* state that only nodes that must go hold */
    uint64_t start_ns;       /* until the processes that take it over can; 0: they run already */
    uint64_t boundary_ns;    /* until the next step boundary, at worst */
    double bytes_per_second; /* of a link */
};

enum preemption_way { PREEMPTION_HAND_OVER, PREEMPTION_CHECKPOINT };

/** preemption_seconds() - what handing over takes, with the margin that is kept */
double preemption_seconds(const struct preemption *preemption);
/** preemption_decide() */
enum preemption_way preemption_decide(const struct preemption *preemption);
