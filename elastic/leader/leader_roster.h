/*
 * Every process of a job that the leader knows, and its role in the plan in force. Private to the
 * leader: leader.h describes the whole.
 */
#pragma once

#include "elastic/leader/leader.h"

enum seat {
    SEAT_RUNNING, /* trains in the plan in force (or has finished it) */
    SEAT_JOINING, /* entering the plan: starting, or still in the previous generation */
    SEAT_BROKEN,  /* stuck with its state: waits for another plan */
    SEAT_ASIDE,   /* left out after a failure: keeps its state until the others have begun */
    SEAT_LOST,    /* its process is gone or replaced, or its slot is out of service */
    SEAT_LEFT,    /* left on purpose */
    SEAT_SILENT,  /* it has a rank, and its node has sent no report of this generation */
    SEAT_SPARE,   /* no rank in the plan: being prepared for the next */
};

struct roster_member {
    const char *node_name;
    unsigned slot;
    int rank;                           /* in the plan in force; -1: none */
    const struct member *node;          /* NULL: its lease is gone */
    const struct worker_report *report; /* NULL when silent */
    const struct worker_report
        *before; /* of a silent one: its report in the generation that a plan from memory follows,
                    because its node may not have heard of the plan; or NULL */
    enum seat seat;
};

struct roster {
    const struct leader_view *view;
    struct roster_member *members; /* ordered by (node, slot) */
    unsigned count;
    const struct member **nodes; /* ordered by name */
    bool all_running;            /* every worker rank runs; false when there are none */
    bool any_running;
    bool never_started; /* a worker was lost before it joined, so the plan cannot have committed */
};

/** roster_init() - build the roster of @view, which is borrowed until roster_done(). Return: 0;
 * -ENOMEM (nothing is left to free) */
int roster_init(struct roster *roster, const struct leader_view *view) CHECK_RESULT;
void roster_done(struct roster *roster);

/** roster_find(), roster_node() - return the member on @slot of @node, the node of @name; NULL:
 * none */
const struct roster_member *roster_find(const struct roster *roster, const char *node,
                                        unsigned slot);
const struct member *roster_node(const struct roster *roster, const char *name);

/** roster_is_worker() - return whether the member has a rank that computes, not a donor's */
bool roster_is_worker(const struct roster *roster, const struct roster_member *member);
/** roster_alive() - return whether the process may exist: the member is neither lost nor left, and
 * its node is registered */
bool roster_alive(const struct roster_member *member);
/** roster_has_state() - return whether the member's report names units in memory */
bool roster_has_state(const struct roster_member *member);
/** roster_diverged() - return a report with CAUSE_DIVERGED; NULL: none */
const struct worker_report *roster_diverged(const struct roster *roster);
/** roster_disputed() - return whether a generation broke because replicas held different state */
bool roster_disputed(const struct roster *roster);
/** roster_refused() - return the text of a refusal of this job by @node; NULL: none */
const char *roster_refused(const struct roster *roster, const char *node);
/** roster_accused() - return whether a report names this member, or another worker of its node, as
 * lost: peers name the first worker that they missed, and a node dies with all its workers. A
 * report of a generation before the plan in force, which answers that failure, does not count if
 * the node has reported since */
bool roster_accused(const struct roster *roster, const struct roster_member *member);
