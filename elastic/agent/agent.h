/*
 * A node's part in one job: decide which worker processes must exist, which messages each worker
 * gets, and the content of the node's report. A pure state machine: agent_step(agent, event) ->
 * actions; firnd carries out the actions.
 *
 * Before the first AGENT_PLAN a new firnd feeds AGENT_REPORTED with the last report that this node
 * wrote about the plan in force, or the generation that it follows, if there is one, then
 * AGENT_WORKER_UP for every worker that it finds running. A slot of the plan without either counts
 * as never started. A worker that was reported in the plan but is not found is lost, because no
 * process may enter a generation twice. The last status of a worker is fed before its
 * AGENT_WORKER_EXIT.
 *
 * The agent expects of a worker:
 * - A fresh worker says hello as STARTING.
 * - A worker answers every PREPARE with PREPARED (that plan's generation), and gets SWITCH when the
 *   plan is in force. A PREPARE ends the wait for links of another plan.
 * - A worker reports RUNNING when the links of the generation are up and its state has arrived; it
 *   may compute before all of it has arrived (protocol/unit_arrivals.h). Until then the worker
 *   keeps its former phase, with one exception: at a planned boundary the worker reports PREPARED
 *   of the new generation, with its state, before it opens links. If that generation never starts,
 *   this report is the last one on the worker's state.
 * - A worker that is STUCK waits for an unplanned plan (planned plans are not sent to it).
 * - A worker answers a plan that does not fit its state with STUCK of that generation and its true
 *   state, and drops nothing.
 * - A worker ignores PREPARE and SWITCH of a generation in which it already is, which it is
 *   joining, or in which it was stuck.
 */
#pragma once

#include "elastic/messages/control.h"

enum agent_event_type {
    AGENT_PLAN,          /* `plan` in force changed (or was read at start); NULL: the job is gone */
    AGENT_REPORTED,      /* `report`: see above */
    AGENT_NEXT,          /* `plan`: being prepared; NULL: dropped */
    AGENT_WORKER_UP,     /* `slot`: its worker is connected (also: found running by a new firnd) */
    AGENT_WORKER_STATUS, /* `slot`, `status` */
    AGENT_WORKER_EXIT,   /* `slot`, `exit_code` (negative: signal), `text`: its last log line */
    AGENT_SLOT_WANTED,   /* `slot`: another job starts a worker there */
    AGENT_SLOT_MENDED,   /* `slot` is in service again: by an operator, or because its pause is
                            over */
    AGENT_TICK,
};

struct agent_event {
    enum agent_event_type type;
    uint64_t now_ns;
    const struct plan *plan; /* borrowed */
    unsigned slot;
    const struct worker_report *status;
    const struct node_report *report; /* borrowed */
    bool excused;      /* AGENT_REPORTED: an operator has put the slots back in service since */
    bool on_probation; /* AGENT_WORKER_EXIT: `slot` was out of service not long ago */
    int exit_code;
    char text[REPORT_TEXT_SIZE];
};

enum agent_action_type {
    AGENT_SPAWN, /* start a worker process on `slot` */
    AGENT_SEND_PREPARE,
    AGENT_SEND_SWITCH,
    AGENT_SEND_STOP, /* to `slot`; PREPARE/SWITCH carry `plan` (borrowed from the agent) */
    AGENT_KILL,      /* SIGKILL the process on `slot` (it ignored STOP, or is fenced) */
    AGENT_REPORT,    /* write agent_last_report() under its generation */
    AGENT_SLOT_BAD,  /* take `slot` out of service with `text` */
};

struct agent_action {
    enum agent_action_type type;
    unsigned slot;
    const struct plan *plan;
    bool crashed; /* AGENT_SLOT_BAD: true: its workers died, and the next one may not. False: a
                     worker reported that it computes wrongly, or has another version */
    char text[REPORT_TEXT_SIZE];
};

#define AGENT_ACTIONS_MAX 256
struct agent_actions {
    unsigned count;
    struct agent_action list[AGENT_ACTIONS_MAX];
    uint64_t wake_at_ns; /* feed AGENT_TICK by then; UINT64_MAX: never */
};

struct agent;
/**
 * agent_new() - create the agent of one job
 * @node: this node's name; @incarnation: of its firnd; @links: the link protocol of the workers
 * that this node starts
 *
 * After a death at start the restart backs off from TIMEOUT_PARTS_RESTART_MIN, doubling. A slot
 * turns bad after AGENT_STARTS_MAX deaths before `prepared`, or after AGENT_CRASHES_MAX deaths in a
 * row of workers that were prepared but had not run for TIMEOUTS_WORKER_JOINED failure timeouts. A
 * worker that dies only once is replaced at once, because the cause may lie elsewhere. On probation
 * one death of either kind is enough.
 *
 * Return: the agent, for agent_free(); NULL when memory is short.
 */
#define AGENT_STARTS_MAX  5
#define AGENT_CRASHES_MAX 6
struct agent *agent_new(const char *job, const char *node, uint64_t incarnation, unsigned links,
                        uint64_t failure_timeout_ns);
void agent_free(struct agent *agent);
/**
 * agent_step() - account for @event and list the actions that follow
 * @event: its plan is shared (plan_share()), so it must not change any more
 * @ret_actions: only the first `count` are written
 *
 * Plans in the actions are borrowed from the agent until the agent gets another plan of the same
 * kind. Plans older than the plan in force are ignored.
 */
void agent_step(struct agent *agent, const struct agent_event *event,
                struct agent_actions *ret_actions);
/** agent_last_report() - return this node's current report; borrowed until the next agent_step() */
const struct node_report *agent_last_report(const struct agent *agent);
/** agent_idle() - return whether no worker of this job is left on this node */
bool agent_idle(const struct agent *agent);
/** agent_rests() - return whether the agent may be freed, and created again for a later plan: it is
 * idle, no plan wants a worker here, and its knowledge of this node's slots does not matter to a
 * later plan */
bool agent_rests(const struct agent *agent);
