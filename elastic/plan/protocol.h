/*
 * Programs of two versions side by side, as they are while a cluster is upgraded node by node.
 *
 * Three things must agree, each among others:
 *
 *     links       workers of one generation, who send each other all that comm/ carries
 *     control     a firnd, its workers and the leader: control messages, plans, reports and records
 *                 are JSON whose unknown keys are left alone, so a program speaks every version
 *                 from its oldest to its own; two understand each other where these ranges meet
 *     arithmetic  nodes of one job: what they compute with, to the bit
 * (elastic/leader/leader_compatibility.c)
 *
 * Checkpoints have the version of their format: newer programs read older ones. A number is raised
 * with the change that needs it, never for a release as such.
 */
#pragma once

#include <stdbool.h>

/* Of control: 2 says a worker's cause in one word (elastic/messages/report.h); the keys of 1 are
 * still written beside it. */
#define PROTOCOL_CONTROL        2
#define PROTOCOL_CONTROL_OLDEST 1
#define PROTOCOL_MAX            65535 /* of any of these numbers */

/* Of a node: its firnd's control, and the links of the workers that it starts. */
struct protocol {
    unsigned links;                   /* 0: not said */
    unsigned control, control_oldest; /* 0: not said, which means 1 */
};

/** protocol_meets() - does this program understand one of @control_oldest to @control, and it us?
 */
bool protocol_meets(unsigned control_oldest, unsigned control);
