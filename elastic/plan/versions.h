/*
 * Compatibility of programs of two versions, which run side by side while a cluster is upgraded
 * node by node.
 *
 * Three properties must agree, each among different parties:
 *
 *     links       workers of one generation: all messages of comm/
 *     control     a firnd, its workers and the leader: control messages, plans, reports and records
 *                 are JSON whose unknown keys are ignored, so a program speaks every version from
 *                 its oldest to its own; two programs understand each other if these ranges meet
 *     numerics    nodes of one job: bit-identical results
 * (elastic/leader/leader_compatibility.c)
 *
 * Checkpoints have the version of their format: newer programs read older ones. A version number is
 * raised by the change that needs it, not by a release as such.
 */
#pragma once

#include <stdbool.h>

/* Control versions. 2 gives a worker's cause as one word (elastic/messages/report.h); the keys of 1
 * are still written as well. */
#define VERSIONS_CONTROL        2
#define VERSIONS_CONTROL_OLDEST 1
#define VERSIONS_MAX            65535 /* largest value of any of these numbers */

/* Versions of a node: the control versions of its firnd, and the links version of its workers. */
struct versions {
    unsigned links;                   /* 0: missing */
    unsigned control, control_oldest; /* 0: missing, which means 1 */
};

/**
 * versions_meet() - return whether the range @control_oldest to @control meets the range of this
 * program
 */
bool versions_meet(unsigned control_oldest, unsigned control);
