/*
 * The time limits of the cluster, as multiples of failure_timeout: the one table.
 *
 * failure_timeout is the silence after which a peer is given up. Each limit below says what it
 * bounds, and the assertions say which limit must be longer than which other. A limit that counts
 * seconds of work (a start, a step, the state to read) is derived from that work where it is used,
 * and these are added to it.
 */
#pragma once

enum timeouts {
    /* ---- links ---- */
    TIMEOUTS_UNREACHED = 4,     /* a peer refuses connections before it is reported as unreached */
    TIMEOUTS_LINKS_OPEN = 20,   /* the links of a generation open, beside its start */
    TIMEOUTS_LATE_ATTEMPT = 40, /* one attempt to link to a peer that still computes its step */
    TIMEOUTS_CARRIER_JOIN = 20, /* the members of a carrier agree on it and join */
    TIMEOUTS_CARRIER_MOVE = 40, /* a tensor arrives, while its sender may still compute */
    TIMEOUTS_REMOTE_AWAY = 4,   /* a node whose firnd did not answer is not asked for files */

    /* ---- workers, as their agent waits for them ---- */
    TIMEOUTS_WORKER_START = 20,    /* from spawn to hello */
    TIMEOUTS_WORKER_JOINED = 4,    /* a worker that dies sooner counts as dead at its start */
    TIMEOUTS_WORKER_LEFT_OUT = 20, /* a stuck worker that the plan left out keeps its state */
    TIMEOUTS_ANNOUNCED_PLAN = 8,   /* a plan that a commit announced arrives */
    TIMEOUTS_START_REPORT = 2,     /* between two reports of a worker that starts */

    /* ---- the leader's patience ---- */
    TIMEOUTS_PREPARE = 20,              /* new workers of a planned change are prepared */
    TIMEOUTS_SILENT_WORKER = 8,         /* the report of a worker that holds state is waited for */
    TIMEOUTS_UNHEARD_GONE = 2,          /* a node that must hear of a planned change is gone */
    TIMEOUTS_UNHEARD_SILENT = 8,        /* rank 0 is silent although all nodes are there */
    TIMEOUTS_NEWER_CHECKPOINT = 8,      /* nodes with a newer checkpoint are waited for */
    TIMEOUTS_UNREADABLE_CHECKPOINT = 8, /* a checkpoint that cannot be read is tried, at least */
    TIMEOUTS_RETRY_PAUSE_MAX = 4,       /* the longest pause between two attempts to begin */
    TIMEOUTS_PREEMPTED_START = 2,       /* a worker usually starts within, on a spot notice */
    TIMEOUTS_STEP_END = 20,             /* a change that must come waits for the end of a step */
    TIMEOUTS_AVOID_MIN = 2,             /* a slot that did not come up is avoided, at first */
    TIMEOUTS_AVOID_MAX = 32,            /* and at most */
    TIMEOUTS_NETSPLIT_MIN = 40,         /* a pair of nodes is believed to be cut, at first */
    TIMEOUTS_PAIR_LOSS = TIMEOUTS_NETSPLIT_MIN, /* both ends are waited for, at least */
    TIMEOUTS_CHECKPOINT_READER = 40, /* a node is believed to be unable to read a checkpoint */
    TIMEOUTS_SLOW_SLOT_MIN = 40,     /* a slow slot is left out, at first */

    /* ---- slots and copies ---- */
    TIMEOUTS_COPIES_MISSING = 4,       /* copies are missing before they are made again */
    TIMEOUTS_SLOT_BACKOFF_MIN = 200,   /* a slot is out of service, at first: 5 min of 1.5 s */
    TIMEOUTS_SLOT_BACKOFF_GOOD = 2400, /* in service until its deaths are forgotten: 1 h */
    TIMEOUTS_SLOT_BACKOFF_MAX = 9600,  /* out of service, at most: 4 h */
};

#define TIMEOUTS_ORDER(shorter, longer)                                                            \
    _Static_assert(TIMEOUTS_##shorter < TIMEOUTS_##longer, #shorter " is shorter than " #longer)

TIMEOUTS_ORDER(UNREACHED, SILENT_WORKER); /* what is unreached is known when the leader decides */
TIMEOUTS_ORDER(UNREACHED, LINKS_OPEN);
TIMEOUTS_ORDER(CARRIER_JOIN, CARRIER_MOVE);
TIMEOUTS_ORDER(ANNOUNCED_PLAN, PREPARE);
TIMEOUTS_ORDER(START_REPORT, SILENT_WORKER); /* a worker that starts is never silent */
TIMEOUTS_ORDER(START_REPORT, PREPARE);
TIMEOUTS_ORDER(WORKER_JOINED, WORKER_START);
TIMEOUTS_ORDER(SILENT_WORKER, WORKER_LEFT_OUT); /* its state outlasts the decision without it */
TIMEOUTS_ORDER(UNHEARD_GONE, UNHEARD_SILENT);
TIMEOUTS_ORDER(RETRY_PAUSE_MAX, UNREADABLE_CHECKPOINT); /* it is tried more than once */
TIMEOUTS_ORDER(AVOID_MIN, AVOID_MAX);
TIMEOUTS_ORDER(LINKS_OPEN, NETSPLIT_MIN); /* a cut is believed for longer than one attempt takes */
TIMEOUTS_ORDER(LINKS_OPEN, CHECKPOINT_READER);
TIMEOUTS_ORDER(SLOT_BACKOFF_MIN, SLOT_BACKOFF_GOOD);
TIMEOUTS_ORDER(SLOT_BACKOFF_GOOD, SLOT_BACKOFF_MAX);
