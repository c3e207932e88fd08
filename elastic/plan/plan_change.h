/*
 * The change from the previous generation: its reason, and the moment at which it takes effect.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PLAN_REASON_SIZE   256
#define PLAN_SPARE_ENDLESS ((uint64_t)INT64_MAX)

enum plan_reason {
    PLAN_REASON_START,
    PLAN_REASON_FREEZE,
    PLAN_REASON_SCALE,
    PLAN_REASON_JOIN,
    PLAN_REASON_DRAIN,
    PLAN_REASON_FAILURE,
    PLAN_REASON_PAUSE,
    PLAN_REASON_RESUME,
    PLAN_REASON_CANCEL,
    PLAN_REASON_REFUSED,   /* no node can run the job: the text is from one of them */
    PLAN_REASON_STRAGGLER, /* a worker became slower than its peers, or recovered */
    PLAN_REASON_UPGRADE,   /* to workers of another link protocol, through a checkpoint */
};

struct plan_change {
    enum plan_reason reason;
    char text[PLAN_REASON_SIZE]; /* for users: "node b lost: 6 slots -> 4" */
    bool planned;      /* takes effect at a step boundary of the previous generation, or within a
                          step (early_switch.h); else at once */
    bool is_limited;   /* of a planned change: it begins within limit_ns of its arrival, even if */
    uint64_t limit_ns; /* that costs a part of the step in progress */
    uint64_t spare_ns; /* of a limited change: longest wait after which a last checkpoint still ends
                          before nodes go; PLAN_SPARE_ENDLESS: no node goes */
    unsigned asked_devices; /* of a change to the devices that the user allowed; 0: for others */
    double before_seconds;  /* prediction of the layout before, by what is known of its slots when
                               this plan is made; 0: that of its plan */
    double switch_seconds;  /* pause of the job's last planned change, as measured; 0: unknown */
    uint64_t busy_ns; /* time that a worker of the previous generation may compute without looking
                         at its links; 0: unknown */
    bool breaks_off;  /* of a planned switch that cannot start: workers of the previous generation
                        that receive it leave that generation at once and report their state
                        (leader_supersede.c) */
    /* Of a planned switch: the changes to these generations cannot begin, because new workers of
     * them are gone: a worker that left a step for one of them enters this plan instead. 0: none */
    uint64_t revokes_first, revokes_last;
};
