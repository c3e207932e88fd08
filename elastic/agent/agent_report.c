/*
 * The node's report: one entry for every process of the job, alive or missing.
 *
 * Invariant: a slot of the plan in force always has an entry, so a leader can distinguish a node
 * without news from a node that has not reported. A process that is gone is reported without state.
 */
#include <string.h>

#include "elastic/agent/agent_internal.h"

static struct worker_report *add_entry(struct node_report *report, unsigned slot,
                                       enum worker_phase phase)
{
    struct worker_report *entry = &report->workers[report->worker_count++];
    memset(entry, 0, sizeof(*entry));
    entry->slot = slot;
    entry->phase = phase;
    return entry;
}

/* Add the entry of an ended process: its instance and last generation, no state. */
static void add_ended(struct node_report *report, unsigned index, const struct agent_slot *slot,
                      enum worker_phase phase)
{
    struct worker_report *entry = add_entry(report, index, phase);
    entry->instance = slot->status.instance;
    /* A process that was only starting or prepared had not entered the generation it named. */
    if (slot->status.phase != WORKER_STARTING && slot->status.phase != WORKER_PREPARED)
        entry->generation = slot->status.generation;
    if (phase == WORKER_REFUSED)
        entry->cause = slot->status.cause;
    else if (phase == WORKER_BAD && slot->crashed)
        entry->cause = CAUSE_CRASHED;
    memcpy(entry->text, slot->text, sizeof(entry->text));
}

static void add_alive(const struct agent *agent, struct node_report *report, unsigned index,
                      const struct agent_slot *slot)
{
    const struct worker_report *status = &slot->status;
    if (!slot->greeted && status->phase == WORKER_STARTING) {
        struct worker_report *entry = add_entry(report, index, WORKER_STARTING);
        memcpy(entry->text, slot->text, sizeof(entry->text));
        return;
    }
    report->workers[report->worker_count] = *status;
    struct worker_report *entry = &report->workers[report->worker_count++];
    entry->slot = index;
    /* Prepared for a plan that has since been replaced under the same generation number. */
    if (status->phase == WORKER_PREPARED && status->held_unit_count == 0 &&
        !agent_prepared_for(slot, agent->plan) && !agent_prepared_for(slot, agent->next))
        entry->phase = WORKER_STARTING;
}

/* Add a rank of the plan in force without a process: lost, or still to be started. */
static void add_missing(const struct agent *agent, struct node_report *report, unsigned index,
                        const struct agent_slot *slot, const struct plan_worker *worker)
{
    bool leaves = agent->plan->layout.worker_count == 0;
    if (plan_worker_is_new(worker) && !leaves) {
        struct worker_report *entry = add_entry(report, index, WORKER_STARTING);
        memcpy(entry->text, slot->text, sizeof(entry->text));
        return;
    }
    struct worker_report *entry = add_entry(report, index, leaves ? WORKER_LEFT : WORKER_DEAD);
    entry->instance = worker->instance;
    /* The progress of the process is not known here, so assume the most: this generation. */
    entry->generation = agent->plan->generation;
}

static void fill_slot(const struct agent *agent, struct node_report *report, unsigned index)
{
    const struct agent_slot *slot = &agent->slots[index];
    int rank = agent_rank(agent, agent->plan, index);
    bool mentioned = rank >= 0 || agent_rank(agent, agent->next, index) >= 0;
    if (slot->refused)
        add_ended(report, index, slot, WORKER_REFUSED);
    else if (slot->bad)
        add_ended(report, index, slot, WORKER_BAD);
    else if (slot->process != PROCESS_NONE)
        add_alive(agent, report, index, slot);
    else if (slot->end.how != END_NONE && mentioned)
        add_ended(report, index, slot, slot->end.how == END_DEAD ? WORKER_DEAD : WORKER_LEFT);
    else if (rank >= 0)
        add_missing(agent, report, index, slot, &agent->plan->layout.workers[rank]);
}

void agent_fill_report(const struct agent *agent, struct node_report *report)
{
    memcpy(report->node, agent->node, sizeof(report->node));
    report->generation = agent->plan->generation;
    report->incarnation = agent->incarnation;
    report->worker_count = 0;
    for (unsigned index = 0; index < REPORT_WORKERS_MAX; index++)
        fill_slot(agent, report, index);
}

/* Return whether the report names processes without state that the previous firnd had reported and
 * this one has found: the leader believes only this firnd about them (leader_roster.c). */
static bool confirms(const struct node_report *before, const struct node_report *report)
{
    for (unsigned i = 0; i < report->worker_count; i++)
        if (worker_report_is_fresh(&report->workers[i]))
            return report->incarnation != before->incarnation;
    return false;
}

bool agent_report_news(const struct agent *agent, const struct node_report *report)
{
    const struct node_report *before = agent->reported;
    /* The last report counts until there is one for this plan, if only an empty one. */
    bool counts = before->generation == report->generation || report->worker_count == 0;
    unsigned count_before = counts ? before->worker_count : 0;
    return report->worker_count != count_before || confirms(before, report) ||
           memcmp(report->workers, before->workers,
                  report->worker_count * sizeof(report->workers[0])) != 0;
}
