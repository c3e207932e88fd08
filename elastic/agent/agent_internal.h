/* The agent's knowledge of each slot, and the report built from it. Private to the agent. */
#pragma once

#include "base/instant.h"
#include "elastic/agent/agent.h"

enum agent_process { PROCESS_NONE, PROCESS_STARTING, PROCESS_CONNECTED };
enum agent_end { END_NONE, END_DEAD, END_LEFT };

/* The end of the last process of a slot, while a plan still names it. */
struct slot_end {
    enum agent_end how;
    uint64_t generation; /* of the plan in force at that time */
};

/* Deaths in a row of a slot's processes. */
struct slot_deaths {
    unsigned at_start;      /* before the worker was prepared */
    unsigned crashes;       /* each soon after the worker had joined */
    uint64_t respawn_at_ns; /* the end of the pause after the last death */
};

/* The messages that a worker was sent on its connection. */
struct slot_sent {
    uint64_t prepare, switch_to; /* generations of the last PREPARE and SWITCH; 0: none was sent */
    char prepare_key[PLAN_KEY_HEX_SIZE]; /* of the plan of that PREPARE */
    struct instant stop;                 /* when STOP was sent */
};

struct agent_slot {
    enum agent_process process;
    bool greeted;      /* the worker has sent its status on this connection */
    bool found;        /* found running by a new firnd, without a status so far */
    bool was_prepared; /* this process has been prepared */
    bool fenced;       /* told to stop because no plan wants the worker: its end is no failure */
    bool wanted;       /* by another job, which now has this slot */
    /* The last status of the current or last process; slot and phase at least. */
    struct worker_report status;
    struct slot_end end;
    char text[REPORT_TEXT_SIZE]; /* the reason why the process ended, or the slot is bad or
                                    refuses */
    bool bad, refused;
    bool crashed; /* bad because of deaths */
    struct slot_deaths deaths;
    struct slot_sent sent;
    struct instant joined; /* when this process was first RUNNING */
    uint64_t spawned_at_ns;
    uint64_t stuck_at_ns;
    uint64_t aside_due_ns; /* deadline for a worker that was told to step aside to report it */
    bool killed;
    uint64_t
        lone_generation; /* run by this node alone, with this slot's worker as its root; 0: none */
};

struct agent {
    char job[NAME_SIZE], node[NAME_SIZE];
    uint64_t incarnation; /* of this node's firnd */
    unsigned links;
    uint64_t failure_timeout_ns;
    bool knows_plan; /* AGENT_PLAN has been fed */
    struct plan *plan, *next;
    int plan_ranks[REPORT_WORKERS_MAX]; /* of this node's slots in `plan`, -1: none; cached: a */
    int next_ranks[REPORT_WORKERS_MAX]; /* plan may have thousands of workers. The same in `next` */
    struct agent_slot slots[REPORT_WORKERS_MAX];
    struct node_report *reported; /* the last report written, of reported->generation */
    struct node_report *draft;    /* scratch for the next report; read only once it is filled */
};

/** agent_rank() - return the rank of @slot of this node in @plan, which must be one of the agent's
 * two plans or NULL; -1: none */
int agent_rank(const struct agent *agent, const struct plan *plan, unsigned slot);

/** agent_was_sent_prepare() - return whether PREPARE for this very plan was sent to the worker */
bool agent_was_sent_prepare(const struct slot_sent *sent, const struct plan *plan);
/** agent_prepared_for() - return whether the worker has answered this very plan's PREPARE */
bool agent_prepared_for(const struct agent_slot *slot, const struct plan *plan);

/** agent_fill_report() - fill @report with every slot's state under the plan in force */
void agent_fill_report(const struct agent *agent, struct node_report *report);
/** agent_report_news() - return whether @report differs from the last report */
bool agent_report_news(const struct agent *agent, const struct node_report *report);
