/*
 * The time limits of the cluster, as multiples and as parts of failure_timeout: the one table.
 *
 * failure_timeout is the silence after which a peer counts as dead. Each limit below names the wait
 * that it bounds, and the assertions order the limits. A limit that depends on an amount of work (a
 * start, a step, the state to read) is derived from that work where it is used, and these limits
 * are added to it.
 */
#pragma once

#include <stdint.h>

enum timeouts {
    /* ---- links ---- */
    TIMEOUTS_UNREACHED = 4, /* a host answers nothing before it is reported as unreached */
    TIMEOUTS_UNREACHED_TOO = TIMEOUTS_UNREACHED - 1, /* another peer is reported along with it */
    TIMEOUTS_LINKS_OPEN = 20, /* the links of a generation open, beside its start */
    TIMEOUTS_LATE_ATTEMPT =
        40, /* one attempt to link to a peer that computes its step or reads its state */
    TIMEOUTS_CARRIER_JOIN = 20,  /* the members of a carrier agree on it and join */
    TIMEOUTS_CARRIER_MOVE = 40,  /* a tensor arrives, while its sender may still compute */
    TIMEOUTS_CARRIER_CLOSE = 4,  /* a carrier that is no longer needed closes in order */
    TIMEOUTS_CARRIER_ABORT = 30, /* all carriers of a worker are aborted: 45 s of 1.5 s */
    TIMEOUTS_REMOTE_AWAY = 4,    /* a node whose firnd did not answer is not asked for files */

    /* ---- workers, as their agent waits for them ---- */
    TIMEOUTS_WORKER_START = 20,    /* from spawn to hello */
    TIMEOUTS_WORKER_JOINED = 4,    /* a worker that dies sooner counts as dead at its start */
    TIMEOUTS_WORKER_LEFT_OUT = 20, /* a stuck worker that the plan left out keeps its state */
    TIMEOUTS_ANNOUNCED_PLAN = 8,   /* a plan that a commit announced arrives */
    TIMEOUTS_START_REPORT = 2,     /* between two reports of a worker that starts */
    TIMEOUTS_SLOW_DISK = 20,       /* training waits for a checkpoint before an alarm */

    /* ---- the leader's patience ---- */
    TIMEOUTS_PREPARE = 20,              /* new workers of a planned change are prepared */
    TIMEOUTS_SILENT_WORKER = 8,         /* the report of a worker that holds state is waited for */
    TIMEOUTS_UNHEARD_GONE = 2,          /* a node that must hear of a planned change is gone */
    TIMEOUTS_UNHEARD_SILENT = 8,        /* rank 0 is silent although all nodes are there */
    TIMEOUTS_NEWER_CHECKPOINT = 8,      /* nodes with a newer checkpoint are waited for */
    TIMEOUTS_UNREADABLE_CHECKPOINT = 8, /* a checkpoint that cannot be read is tried, at least */
    TIMEOUTS_RETRY_PAUSE_MAX = 4,       /* the longest pause between two attempts to begin */
    TIMEOUTS_PREEMPTED_START = 2,       /* usual time of a worker's start, on a spot notice */
    TIMEOUTS_HURRY = 2,                 /* a node leaves: a change that has not begun is given up */
    TIMEOUTS_STEP_END = 20,             /* a required change waits for the end of a step */
    TIMEOUTS_AVOID_MIN = 2,             /* a slot that did not come up is avoided, at first */
    TIMEOUTS_AVOID_MAX = 32,            /* and at most */
    TIMEOUTS_NETSPLIT_MIN = 40,         /* a pair of nodes is believed to be cut, at first */
    TIMEOUTS_NETSPLIT_MAX = 2560,       /* and at most: 1 h of 1.5 s */
    TIMEOUTS_PAIR_LOSS = TIMEOUTS_NETSPLIT_MIN, /* both ends are waited for, at least */
    TIMEOUTS_CHECKPOINT_READER = 40, /* a node is believed to be unable to read a checkpoint */
    TIMEOUTS_SLOW_SLOT_MIN = 40,     /* a slow slot is left out, at first */
    TIMEOUTS_SLOW_SLOT_MAX = 2560,   /* and at most: 1 h of 1.5 s */

    /* ---- slots and copies ---- */
    TIMEOUTS_COPIES_MISSING = 4,       /* copies are missing before they are made again */
    TIMEOUTS_SLOT_BACKOFF_MIN = 200,   /* a slot is out of service, at first: 5 min of 1.5 s */
    TIMEOUTS_SLOT_BACKOFF_GOOD = 2400, /* in service until its deaths are forgotten: 1 h */
    TIMEOUTS_SLOT_BACKOFF_MAX = 9600,  /* out of service, at most: 4 h */
};

/* Limits shorter than failure_timeout: its divisors. */
enum timeout_parts {
    /* ---- links ---- */
    TIMEOUT_PARTS_POLL = 8,      /* the thread of the links sleeps, at most */
    TIMEOUT_PARTS_HEARTBEAT = 4, /* between two heartbeats */
    TIMEOUT_PARTS_ATTENTION = 4, /* silence that counts between two polls, at most */
    TIMEOUT_PARTS_FAREWELL = 4,  /* a mesh that failed tells its peers why */

    /* ---- workers, as their agent waits for them ---- */
    TIMEOUT_PARTS_RESTART_MIN = 4, /* before the next start of a worker that died, at first */

    /* ---- the leader's patience, and the patience with a leader ---- */
    TIMEOUT_PARTS_ACCUSED = 8,         /* a silent worker that its peers accuse is waited for */
    TIMEOUT_PARTS_RETRY_PAUSE_MIN = 4, /* the first pause between two attempts to begin */
    TIMEOUT_PARTS_SUSPECT = 4,         /* a leader behind broken links says that it lives */
};

#define TIMEOUTS_ORDER(shorter, longer)                                                            \
    _Static_assert(TIMEOUTS_##shorter < TIMEOUTS_##longer, #shorter " is shorter than " #longer)

TIMEOUTS_ORDER(UNREACHED, SILENT_WORKER); /* unreached hosts are known when the leader decides */
TIMEOUTS_ORDER(UNREACHED, LINKS_OPEN);
TIMEOUTS_ORDER(UNREACHED_TOO, UNREACHED); /* peers that went together are reported together */
TIMEOUTS_ORDER(CARRIER_JOIN, CARRIER_MOVE);
TIMEOUTS_ORDER(CARRIER_CLOSE, SILENT_WORKER); /* a worker that closes late is not given up */
TIMEOUTS_ORDER(CARRIER_CLOSE, CARRIER_ABORT);
TIMEOUTS_ORDER(ANNOUNCED_PLAN, PREPARE);
TIMEOUTS_ORDER(START_REPORT, SILENT_WORKER); /* a worker that starts is never silent */
TIMEOUTS_ORDER(START_REPORT, PREPARE);
TIMEOUTS_ORDER(WORKER_JOINED, WORKER_START);
TIMEOUTS_ORDER(SILENT_WORKER, WORKER_LEFT_OUT); /* its state outlasts the decision without it */
TIMEOUTS_ORDER(UNHEARD_GONE, UNHEARD_SILENT);
TIMEOUTS_ORDER(RETRY_PAUSE_MAX, UNREADABLE_CHECKPOINT); /* it is tried more than once */
TIMEOUTS_ORDER(AVOID_MIN, AVOID_MAX);
TIMEOUTS_ORDER(NETSPLIT_MIN, NETSPLIT_MAX);
TIMEOUTS_ORDER(SLOW_SLOT_MIN, SLOW_SLOT_MAX);
TIMEOUTS_ORDER(LINKS_OPEN, NETSPLIT_MIN); /* a cut is believed for longer than one attempt takes */
TIMEOUTS_ORDER(LINKS_OPEN, CHECKPOINT_READER);
TIMEOUTS_ORDER(SLOT_BACKOFF_MIN, SLOT_BACKOFF_GOOD);
TIMEOUTS_ORDER(SLOT_BACKOFF_GOOD, SLOT_BACKOFF_MAX);

#define TIMEOUT_PARTS_ORDER(shorter, longer)                                                       \
    _Static_assert(TIMEOUT_PARTS_##shorter > TIMEOUT_PARTS_##longer,                               \
                   #shorter " is shorter than " #longer)
#define TIMEOUT_PARTS_FIT(count, part)                                                             \
    _Static_assert(TIMEOUT_PARTS_##part > (count), #part " is too long a part of failure_timeout")

TIMEOUT_PARTS_ORDER(POLL, HEARTBEAT); /* the thread wakes for every heartbeat */
TIMEOUT_PARTS_ORDER(POLL, ATTENTION); /* all silence counts while the thread is punctual */
TIMEOUT_PARTS_FIT(2, HEARTBEAT);      /* a peer that lives is heard although one is late */
TIMEOUT_PARTS_FIT(2, ATTENTION);      /* a peer is given up only after several polls */
TIMEOUT_PARTS_FIT(1, FAREWELL);       /* peers learn the cause before they notice the silence */
TIMEOUT_PARTS_FIT(1, ACCUSED);        /* an accused worker is waited for less than another */
TIMEOUT_PARTS_FIT(1, SUSPECT);        /* the question is answered before the silence counts */

/** timeouts_doubled() - return @first, doubled for each of @times after the first; at most @most */
static inline uint64_t timeouts_doubled(uint64_t first, unsigned times, uint64_t most)
{
    for (; times > 1 && first < most; times--)
        first *= 2;
    return first < most ? first : most;
}
