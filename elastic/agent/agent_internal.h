/* What the agent knows of each slot, and how that becomes a report. Private to the agent. */
#pragma once

#include "elastic/agent/agent.h"

enum agent_process { PROCESS_NONE, PROCESS_STARTING, PROCESS_CONNECTED };
enum agent_end { END_NONE, END_DEAD, END_LEFT };

struct agent_slot {
    enum agent_process process;
    bool greeted;      /* has said its status on this connection */
    bool found;        /* running, by a new firnd, and has not said who it is */
    bool was_prepared; /* this process has come past its start */
    bool fenced;       /* told to stop because no plan wants it: its end is no failure */
    bool wanted;       /* by another job, which has got this slot since */
    /* the last of the process there is or was; slot and phase at least */
    struct worker_report status;
    enum agent_end end;          /* of the last process, while a plan still speaks of it */
    uint64_t end_generation;     /* of the plan that was in force then */
    char text[REPORT_TEXT_SIZE]; /* why it ended, is bad or refuses */
    bool bad, refused;
    bool crashed; /* bad because of deaths */
    unsigned deaths_at_start;
    unsigned crashes;      /* in a row, each soon after the worker had joined */
    uint64_t joined_at_ns; /* 0: this process has not been RUNNING yet */
    uint64_t respawn_at_ns;
    uint64_t spawned_at_ns;
    uint64_t stuck_at_ns;
    uint64_t stop_sent_ns; /* 0: not told */
    uint64_t aside_due_ns; /* when one that was told to step aside has to have said so */
    bool killed;
    uint64_t
        lone_generation; /* that this node ran by itself, this one as its root; 0: none known */
    /* The last plan it was told on this connection. */
    uint64_t prepare_sent, switch_sent;
    char prepare_key[PLAN_KEY_HEX_SIZE];
};

struct agent {
    char job[NAME_SIZE], node[NAME_SIZE];
    unsigned links;
    uint64_t failure_timeout_ns;
    bool knows_plan; /* AGENT_PLAN has been fed */
    struct plan *plan, *next;
    int plan_ranks[REPORT_WORKERS_MAX]; /* of this node's slots in `plan`, -1: none; a plan may */
    int next_ranks[REPORT_WORKERS_MAX]; /* have thousands of workers. And in `next` */
    struct agent_slot slots[REPORT_WORKERS_MAX];
    struct node_report *reported; /* what was said last, of reported->generation */
    struct node_report *draft;    /* what would be said now; only read once it is filled */
};

/** agent_rank() - rank of @slot of this node in @plan, which is one of the agent's; -1: none */
int agent_rank(const struct agent *agent, const struct plan *plan, unsigned slot);

/** agent_prepared_for() - has it answered the PREPARE of exactly this plan? */
bool agent_prepared_for(const struct agent_slot *slot, const struct plan *plan);

/** agent_fill_report() - what is to be said of every slot now, under the plan in force */
void agent_fill_report(const struct agent *agent, struct node_report *report);
/** agent_report_news() - does @report say anything that the last one did not? */
bool agent_report_news(const struct agent *agent, const struct node_report *report);
