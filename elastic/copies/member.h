/* A member of the cluster in the leader's view: a node and its slots. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/plan/plan.h"
#include "elastic/plan/versions.h"
#include "elastic/planner/slot_rates.h"

#define MEMBER_SLOTS_MAX  64 /* of one node */
#define MEMBER_OTHERS_MAX 3  /* kinds of devices of one node, after the first */

struct member_slot {
    unsigned index;
    unsigned computes; /* its numerics identity: 0: the node's first, i: the i-th of the others;
                          above: unknown */
    size_t memory_bytes;
    double speed;
    bool gpu;
    unsigned threads; /* of the host */
    bool bad, busy;   /* busy: in use by `holder` */
    bool leaves;      /* the worker on it is leaving */
    unsigned holder;  /* job using it: leader_view.holders[holder - 1]; 0: none */
    bool tried_again; /* bad, but will be retried */
};

struct member {
    char name[NAME_SIZE];
    char host[ADDRESS_SIZE];                    /* for link addresses: host:(link_port + slot) */
    char numerics_identity[PLAN_NUMERICS_SIZE]; /* equal for bit-identical results; "": unknown */
    char other_numerics_identities[MEMBER_OTHERS_MAX][PLAN_NUMERICS_SIZE];
    struct versions protocol;
    char http[ADDRESS_SIZE]; /* of its firnd, which serves files of checkpoints */
    char domain[NAME_SIZE];  /* failure domain; empty: the node itself */
    unsigned link_port;
    uint64_t incarnation;
    bool draining;
    uint64_t drain_deadline_ns; /* end of the drain; 0: no deadline */
    unsigned slot_count;
    struct slot_measured measured; /* of each of its slots */
    struct member_slot slots[MEMBER_SLOTS_MAX];
};
