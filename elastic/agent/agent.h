/*
 * A node's part in one job: which worker processes must exist, what each is told, what the node
 * reports. A pure state machine: agent_step(agent, event) -> actions; the daemon carries them out.
 *
 * A new firnd feeds, before the first AGENT_PLAN: AGENT_REPORTED with what this node wrote last
 * about the plan in force, if anything, then AGENT_WORKER_UP for every worker that it finds
 * running. A slot of the plan that has neither is taken for one that was never started; one that
 * was reported to be in the plan and is not found is lost, for nobody may enter a generation twice.
 * What a worker wrote before it died is fed before its AGENT_WORKER_EXIT.
 *
 * What the agent expects of workers: a fresh one says hello as STARTING, answers every PREPARE with
 * PREPARED (that plan's generation), and gets SWITCH when the plan is in force. RUNNING is said
 * when the links of the generation are up and the state is there; until then it keeps its former
 * phase, but at a planned boundary it says PREPARED of the new generation with its state before it
 * opens links: should that generation never come up, this is what is known of it. PREPARE ends the
 * wait for links of another plan. A worker that is STUCK waits for an unplanned plan (planned ones
 * are not sent to it). A plan that does not fit what it holds it answers with STUCK of that
 * generation and its true state, and drops nothing. PREPARE and SWITCH of a generation that a
 * worker is in already, joins, or was stuck in are ignored.
 */
#pragma once

#include "elastic/messages/control.h"

enum agent_event_type {
    AGENT_PLAN, /* `plan`: the plan in force changed (or was read at start); NULL: the job is gone
                 */
    AGENT_REPORTED,  /* `report`: see above */
    AGENT_NEXT,      /* `plan`: being prepared; NULL: dropped */
    AGENT_WORKER_UP, /* `slot`: connected, its socket works (also: found running by a new firnd) */
    AGENT_WORKER_STATUS, /* `slot`, `status` */
    AGENT_WORKER_EXIT, /* `slot`, `exit_code` (negative: signal), `text` the last line it logged */
    AGENT_SLOT_WANTED, /* `slot`: another job starts a worker there */
    AGENT_SLOT_MENDED, /* `slot` is in service again: an operator says so, or its pause is over */
    AGENT_TICK,
};

struct agent_event {
    enum agent_event_type type;
    uint64_t now_ns;
    const struct plan *plan; /* borrowed */
    unsigned slot;
    const struct worker_report *status;
    const struct node_report *report; /* borrowed */
    bool excused;      /* AGENT_REPORTED: an operator has said since that the slots are good */
    bool on_probation; /* AGENT_WORKER_EXIT: `slot` was out of service not long ago */
    int exit_code;
    char text[REPORT_TEXT_SIZE];
};

enum agent_action_type {
    AGENT_SPAWN, /* start a worker process on `slot` */
    AGENT_SEND_PREPARE,
    AGENT_SEND_SWITCH,
    AGENT_SEND_STOP, /* to `slot`; PREPARE/SWITCH carry `plan` (borrowed from the agent) */
    AGENT_KILL,      /* SIGKILL what runs on `slot` (it ignored STOP, or is fenced) */
    AGENT_REPORT,    /* write agent_last_report() under its generation */
    AGENT_SLOT_BAD,  /* take `slot` out of service with `text` */
};

struct agent_action {
    enum agent_action_type type;
    unsigned slot;
    const struct plan *plan;
    bool crashed; /* AGENT_SLOT_BAD: its workers died, which another one may not. Else one has said
                     that it computes wrongly, or is of another version */
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
 * agent_new() - @node: this node's name; @links: the link protocol of the workers that it starts
 *
 * Restarts after a death at start back off from @failure_timeout_ns / 4, doubling; AGENT_STARTS_MAX
 * deaths before `prepared` mark the slot bad. So do AGENT_CRASHES_MAX deaths in a row of workers
 * that got further but had not run for AGENT_JOINED_TIMEOUTS failure timeouts; a single one, which
 * may be anybody's doing, is replaced at once. On probation one death of either kind is enough.
 */
#define AGENT_STARTS_MAX      5
#define AGENT_CRASHES_MAX     6
#define AGENT_JOINED_TIMEOUTS 4
struct agent *agent_new(const char *job, const char *node, unsigned links,
                        uint64_t failure_timeout_ns);
void agent_free(struct agent *agent);
/**
 * agent_step() - account for @event, say what is to be done now
 * @event: its plan is shared, so it must not change any more (plan_share())
 * @ret_actions: only the first `count` are written
 *
 * Plans in the actions are borrowed from the agent until it gets another one of that kind. Plans
 * older than the one in force are ignored.
 */
void agent_step(struct agent *agent, const struct agent_event *event,
                struct agent_actions *ret_actions);
/** agent_last_report() - what this node has to say by now; borrowed until the next agent_step() */
const struct node_report *agent_last_report(const struct agent *agent);
/** agent_idle() - no worker of this job is left here */
bool agent_idle(const struct agent *agent);
/** agent_rests() - it is idle, no plan wants a worker here, and it knows nothing of this node's
 * slots that a later plan would have to know: it may be freed, and made anew for that plan */
bool agent_rests(const struct agent *agent);
