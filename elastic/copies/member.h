/* A member of the cluster, as the leader sees it: a node and its slots. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/plan/plan.h"
#include "elastic/plan/protocol.h"
#include "elastic/planner/slot_rates.h"

#define MEMBER_SLOTS_MAX  64 /* of one node */
#define MEMBER_OTHERS_MAX 3  /* kinds of devices of one node, beside the first */

struct member_slot {
    unsigned index;
    unsigned computes; /* 0: with node.arithmetic, i: other_arithmetic[i - 1]; more: unknown */
    size_t memory_bytes;
    double speed;
    bool gpu;
    unsigned threads; /* of the host */
    bool bad, busy;   /* busy: used by another job, */
    bool leaves;      /* whose worker is on its way out */
    unsigned holder;  /* that job: leader_view.holders[holder - 1]; 0: none */
    bool tried_again; /* bad, but for a while only */
};

struct member {
    char name[NAME_SIZE];
    char host[ADDRESS_SIZE];               /* for link addresses: host:(link_port + slot) */
    char arithmetic[PLAN_ARITHMETIC_SIZE]; /* equal where results are, to the bit; "": not known */
    char other_arithmetic[MEMBER_OTHERS_MAX][PLAN_ARITHMETIC_SIZE];
    struct protocol protocol;
    char http[ADDRESS_SIZE]; /* of its firnd, which serves files of checkpoints */
    char domain[NAME_SIZE];  /* empty: one of its own */
    unsigned link_port;
    uint64_t incarnation;
    bool draining;
    uint64_t drain_deadline_ns; /* when a draining one goes; 0: nobody says */
    unsigned slot_count;
    struct slot_measured measured; /* of each of its slots */
    struct member_slot slots[MEMBER_SLOTS_MAX];
};
