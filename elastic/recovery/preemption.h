/*
 * Decide how to empty a node by a given time: hand its state over to peers, or take an emergency
 * checkpoint.
 *
 * Handing over is better, because training continues without a restart. So the checkpoint is taken
 * only if handing over does not fit into the time left. Both begin within a step if its end would
 * come too late (elastic/plan/early_switch.h). State that another node also holds needs no
 * handover: then the node may simply go. Both ways give the same bits. A pure function.
 */
#pragma once

#include <stdint.h>

struct preemption {
    uint64_t left_ns;        /* until the node goes; UINT64_MAX: no deadline is known */
    uint64_t alone_bytes;    /* state held only by nodes that must go */
    uint64_t start_ns;       /* until new processes can take over the state; 0: they already run */
    uint64_t boundary_ns;    /* until a switch can begin, at worst */
    uint64_t links_ns;       /* usual time until the links of the next generation are up */
    uint64_t checkpoint_ns;  /* duration of the last checkpoint; 0: not known */
    double bytes_per_second; /* of a link */
};

enum preemption_way { PREEMPTION_HAND_OVER, PREEMPTION_CHECKPOINT };

/** preemption_seconds() - return the time that handing over takes, with a safety margin */
double preemption_seconds(const struct preemption *preemption);
/** preemption_spare_ns() - return the time that handing over may wait, with time for links in
 * addition to preemption_seconds(); UINT64_MAX: no deadline is known */
uint64_t preemption_spare_ns(const struct preemption *preemption);
/** preemption_checkpoint_spare_ns() - return the time that a checkpoint may wait, with a safety
 * margin; UINT64_MAX: no deadline is known */
uint64_t preemption_checkpoint_spare_ns(const struct preemption *preemption);
/** preemption_decide() - return the way to empty the node */
enum preemption_way preemption_decide(const struct preemption *preemption);
