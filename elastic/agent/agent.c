/*
 * Problem: plans, processes and messages change in any order, and firnd itself may be replaced in
 * between. In every case the node must end up with the processes that the plans name, and the
 * leader must hear all facts on which it decides.
 *
 * Design: an event only updates the agent's knowledge. Then converge() compares that, slot by slot,
 * with the plan in force and the plan being prepared, and emits the missing actions: a start, a
 * message, a stop. Sent messages are remembered by generation for each connection, so a repeated
 * event emits nothing and a new connection gets them again. Last, the report is built from scratch
 * and written if it differs.
 *
 * Invariants: a slot has one process. A worker with state is stopped only for one of these reasons:
 * an unplanned plan that goes back to a checkpoint or pauses the job; a planned plan that follows a
 * generation that ran without that worker; the end of the job; another process that needs the slot;
 * a long time after a plan that leaves the worker out.
 *
 * A worker that a plan after a failure leaves out may be healthy: a dying node accuses others
 * first. So the worker is told to step aside, in the time that it would have for stopping, and
 * keeps its state: until the new generation has begun, that state may be the last copy of some
 * unit.
 */
#include "elastic/agent/agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/agent/agent_internal.h"

struct agent *agent_new(const char *job, const char *node, uint64_t incarnation, unsigned links,
                        uint64_t failure_timeout_ns)
{
    struct agent *agent = calloc(1, sizeof(*agent));
    if (!agent)
        return NULL;
    agent->reported = calloc(1, sizeof(*agent->reported));
    agent->draft = calloc(1, sizeof(*agent->draft));
    if (!agent->reported || !agent->draft) {
        agent_free(agent);
        return NULL;
    }
    snprintf(agent->job, sizeof(agent->job), "%s", job);
    snprintf(agent->node, sizeof(agent->node), "%s", node);
    agent->incarnation = incarnation;
    agent->links = links;
    agent->failure_timeout_ns = failure_timeout_ns;
    return agent;
}

void agent_free(struct agent *agent)
{
    if (!agent)
        return;
    plan_free(agent->plan);
    plan_free(agent->next);
    free(agent->reported);
    free(agent->draft);
    free(agent);
}

bool agent_idle(const struct agent *agent)
{
    for (unsigned index = 0; index < REPORT_WORKERS_MAX; index++)
        if (agent->slots[index].process != PROCESS_NONE)
            return false;
    return true;
}

bool agent_rests(const struct agent *agent)
{
    /* The workers that leave by an empty plan have a rank in it. */
    bool trains = agent->plan && agent->plan->layout.worker_count > 0;
    for (unsigned index = 0; index < REPORT_WORKERS_MAX; index++) {
        const struct agent_slot *slot = &agent->slots[index];
        bool wanted = (trains && agent_rank(agent, agent->plan, index) >= 0) ||
                      agent_rank(agent, agent->next, index) >= 0;
        bool fails = trains && slot->deaths.crashes + slot->deaths.at_start > 0;
        if (wanted || fails || slot->process != PROCESS_NONE || slot->bad || slot->refused)
            return false;
    }
    return true;
}

static void find_ranks(const struct agent *agent, const struct plan *plan, int *ret_ranks)
{
    unsigned total = plan ? plan->layout.worker_count + plan->layout.donor_count : 0;
    for (unsigned index = 0; index < REPORT_WORKERS_MAX; index++)
        ret_ranks[index] = -1;
    for (unsigned rank = 0; rank < total; rank++) {
        const struct plan_worker *worker = &plan->layout.workers[rank];
        if (worker->slot < REPORT_WORKERS_MAX && strcmp(worker->node, agent->node) == 0)
            ret_ranks[worker->slot] = (int)rank;
    }
}

/* The requirements of the plans on one slot. */
struct wish {
    bool worker, donor; /* ranks of the plan in force */
    bool next_fresh;    /* a new process, for the plan being prepared */
    bool fresh;         /* any process will do, for either plan */
    uint64_t instance;  /* of the process that the plan in force names; 0: any */
};

static struct wish wish_of(const struct agent *agent, unsigned index)
{
    struct wish wish = {0};
    int rank = agent_rank(agent, agent->plan, index);
    if (rank >= 0) {
        assert(agent->plan); /* no plan, no rank */
        wish.worker = (unsigned)rank < agent->plan->layout.worker_count;
        wish.donor = !wish.worker;
        wish.instance = agent->plan->layout.workers[rank].instance;
    }
    int next = agent_rank(agent, agent->next, index);
    assert(next < 0 || agent->next);
    wish.next_fresh = !wish.worker && next >= 0 &&
                      (unsigned)next < agent->next->layout.worker_count &&
                      plan_worker_is_new(&agent->next->layout.workers[next]);
    wish.fresh = wish.next_fresh || (wish.worker && wish.instance == 0);
    return wish;
}

static struct agent_action *emit(struct agent_actions *actions, enum agent_action_type type,
                                 unsigned slot)
{
    assert(actions->count < AGENT_ACTIONS_MAX);
    struct agent_action *action = &actions->list[actions->count++];
    action->type = type;
    action->slot = slot;
    action->plan = NULL;
    action->crashed = false;
    action->text[0] = '\0';
    return action;
}

static void wake(struct agent_actions *actions, uint64_t at_ns)
{
    actions->wake_at_ns = MIN(actions->wake_at_ns, at_ns);
}

/* --- taking events --- */

/* Forget the end of a slot's last process once the plans name another process for the slot. */
static void forget_ends(struct agent *agent)
{
    for (unsigned index = 0; index < REPORT_WORKERS_MAX; index++) {
        struct agent_slot *slot = &agent->slots[index];
        struct wish wish = wish_of(agent, index);
        bool same = (wish.worker || wish.donor) && wish.instance != 0 &&
                    wish.instance == slot->status.instance;
        bool now = agent->plan && slot->end.generation == agent->plan->generation;
        if (slot->process == PROCESS_NONE && !same && !now)
            slot->end.how = END_NONE;
    }
}

static bool same_plan(const struct plan *a, const struct plan *b)
{
    return a && b && a->generation == b->generation && strcmp(a->links.key, b->links.key) == 0;
}

/* Remember a generation that runs on this node alone: its root commits without any other node, so
 * no link fences it. */
static void note_lone(struct agent *agent)
{
    const struct plan *plan = agent->plan;
    const char *node = plan ? plan_layout_lone_node(&plan->layout) : NULL;
    for (unsigned index = 0; node && index < REPORT_WORKERS_MAX; index++)
        if (strcmp(node, agent->node) == 0 && agent->plan_ranks[index] == 0)
            agent->slots[index].lone_generation = plan->generation;
}

/* Make @plan the plan in force; takes ownership of @plan. */
static void take_plan(struct agent *agent, struct plan *plan)
{
    bool news = !same_plan(agent->plan, plan);
    agent->knows_plan = true;
    if (plan && agent->plan && plan->generation < agent->plan->generation) {
        plan_free(plan);
        return;
    }
    for (unsigned index = 0; news && index < REPORT_WORKERS_MAX; index++)
        agent->slots[index].wanted = false;
    plan_free(agent->plan);
    agent->plan = plan;
    find_ranks(agent, plan, agent->plan_ranks);
    note_lone(agent);
    if (agent->next && (!plan || agent->next->generation <= plan->generation)) {
        plan_free(agent->next);
        agent->next = NULL;
    }
    if (news)
        forget_ends(agent);
}

static void take_next(struct agent *agent, struct plan *next)
{
    bool news = !same_plan(agent->next, next);
    if (next && agent->plan && next->generation <= agent->plan->generation) {
        plan_free(next);
        next = NULL;
    }
    plan_free(agent->next);
    agent->next = next;
    find_ranks(agent, next, agent->next_ranks);
    for (unsigned index = 0; news && index < REPORT_WORKERS_MAX; index++)
        if (agent->slots[index].process == PROCESS_NONE && !wish_of(agent, index).worker)
            agent->slots[index].end.how = END_NONE;
}

/* Mark the slot bad because its worker reports itself as bad: that worker's state cannot be
 * trusted. */
static void take_out_of_service(struct agent *agent, unsigned index,
                                const struct worker_report *said, struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    if (slot->bad)
        return;
    slot->bad = true;
    memcpy(slot->text, said->text, sizeof(slot->text));
    memcpy(emit(actions, AGENT_SLOT_BAD, index)->text, slot->text, sizeof(slot->text));
}

/* Return whether a worker that was in a generation reported itself as bad, which a restart cannot
 * cure. */
static bool accused_itself(const struct worker_report *said)
{
    return said->phase == WORKER_BAD && worker_report_entered(said) && said->cause != CAUSE_CRASHED;
}

/* Take over the report of an earlier firnd about processes that are no longer found. The report
 * stands until this firnd writes a different one. */
static void take_reported(struct agent *agent, const struct agent_event *event,
                          struct agent_actions *actions)
{
    const struct node_report *report = event->report;
    for (unsigned i = 0; i < report->worker_count; i++) {
        const struct worker_report *said = &report->workers[i];
        struct agent_slot *slot = &agent->slots[said->slot % REPORT_WORKERS_MAX];
        bool was_in = said->phase == WORKER_RUNNING || said->phase == WORKER_STUCK ||
                      said->phase == WORKER_FINISHED || said->phase == WORKER_DEAD ||
                      (said->phase == WORKER_BAD && said->cause == CAUSE_CRASHED &&
                       worker_report_entered(said));
        if (slot->process != PROCESS_NONE ||
            (!was_in && !accused_itself(said) && said->phase != WORKER_LEFT))
            continue;
        slot->status = *said;
        if (accused_itself(said) && !event->excused)
            take_out_of_service(agent, said->slot % REPORT_WORKERS_MAX, said, actions);
        slot->end.how = was_in ? END_DEAD : END_LEFT;
        slot->end.generation = report->generation;
    }
    agent->reported->generation = report->generation;
    agent->reported->incarnation = report->incarnation;
    agent->reported->worker_count = report->worker_count;
    for (unsigned i = 0; i < report->worker_count; i++)
        worker_report_copy(&report->workers[i], &agent->reported->workers[i]);
}

static void take_up(struct agent *agent, const struct agent_event *event)
{
    struct agent_slot *slot = &agent->slots[event->slot];
    if (slot->process == PROCESS_NONE) { /* found running */
        /* The worker may die before its first status: the last report tells whether it was in a
         * generation. */
        slot->was_prepared = slot->end.how == END_DEAD;
        if (!slot->was_prepared)
            memset(&slot->status, 0, sizeof(slot->status));
        slot->found = true;
        slot->end.how = END_NONE;
        slot->fenced = slot->killed = false;
        slot->wanted = false;
        instant_clear(&slot->joined);
    }
    slot->spawned_at_ns = event->now_ns;
    slot->process = PROCESS_CONNECTED;
    slot->greeted = false;
    slot->sent = (struct slot_sent){0};
}

static void take_status(struct agent *agent, const struct agent_event *event,
                        struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[event->slot];
    if (slot->process == PROCESS_NONE)
        return;
    if (event->status->phase == WORKER_STUCK && slot->status.phase != WORKER_STUCK)
        slot->stuck_at_ns = event->now_ns;
    slot->status = *event->status;
    slot->process = PROCESS_CONNECTED;
    slot->greeted = true;
    slot->found = false;
    if (event->status->phase == WORKER_REFUSED) {
        slot->refused = true;
        memcpy(slot->text, event->status->text, sizeof(slot->text));
    } else if (event->status->phase == WORKER_BAD) {
        take_out_of_service(agent, event->slot, event->status, actions);
    } else if (event->status->phase != WORKER_STARTING) {
        slot->was_prepared = true;
        slot->deaths.at_start = 0;
    }
    if (event->status->phase == WORKER_RUNNING)
        instant_note(&slot->joined, event->now_ns);
}

static void take_out(struct agent_slot *slot, const struct agent_event *event, const char *how,
                     unsigned times, struct agent_actions *actions)
{
    struct agent_action *action = emit(actions, AGENT_SLOT_BAD, event->slot);
    char often[32];
    slot->bad = slot->crashed = action->crashed = true;
    snprintf(often, sizeof(often), "%u times", times);
    snprintf(action->text, sizeof(action->text), "died %s %s: %.180s",
             event->on_probation ? "again" : often, how, event->text);
    memcpy(slot->text, action->text, sizeof(slot->text));
}

/* Return the time of the next start after @deaths; the pause doubles with each death. */
static uint64_t start_again_at(const struct agent *agent, uint64_t now_ns, unsigned deaths)
{
    return now_ns + (agent->failure_timeout_ns / TIMEOUT_PARTS_RESTART_MIN << (deaths - 1));
}

/* Count a death before `prepared`: try again after a pause, or take the slot out of service. */
static void count_death_at_start(struct agent *agent, struct agent_slot *slot,
                                 const struct agent_event *event, struct agent_actions *actions)
{
    slot->deaths.at_start++;
    if (slot->deaths.at_start < AGENT_STARTS_MAX && !event->on_probation)
        slot->deaths.respawn_at_ns = start_again_at(agent, event->now_ns, slot->deaths.at_start);
    else
        take_out(slot, event, "at start", AGENT_STARTS_MAX, actions);
}

/* Count a death of a worker that was at least prepared. A worker that dies soon after each start of
 * training would do so forever, so the slot is taken out of service in the end. */
static void count_crash(struct agent *agent, struct agent_slot *slot,
                        const struct agent_event *event, struct agent_actions *actions)
{
    uint64_t long_enough = TIMEOUTS_WORKER_JOINED * agent->failure_timeout_ns;
    bool soon = !slot->joined.is_set || event->now_ns < slot->joined.ns + long_enough;
    if (!soon)
        slot->deaths.crashes = 0;
    slot->deaths.crashes++;
    if (slot->deaths.crashes == AGENT_CRASHES_MAX || (soon && event->on_probation))
        take_out(slot, event, "soon after it had joined", AGENT_CRASHES_MAX, actions);
    else if (slot->deaths.crashes > 1)
        slot->deaths.respawn_at_ns = start_again_at(agent, event->now_ns, slot->deaths.crashes - 1);
}

static void take_mended(struct agent_slot *slot)
{
    slot->bad = slot->crashed = slot->refused = false;
    slot->deaths = (struct slot_deaths){0};
}

/* Return whether the worker has no state. A worker between two generations reports PREPARED with
 * its state, and is not fresh. */
static bool is_fresh(const struct agent_slot *slot)
{
    return slot->status.phase == WORKER_STARTING ||
           (slot->status.phase == WORKER_PREPARED && slot->status.held_unit_count == 0);
}

/*
 * Return whether a plan wants a new process on this slot, and the process that has just ended is
 * not that process: it belonged to an earlier generation, or was already stopping when that plan
 * arrived.
 */
static bool makes_room(const struct agent *agent, unsigned index)
{
    const struct agent_slot *slot = &agent->slots[index];
    struct wish wish = wish_of(agent, index);
    bool before = agent->plan && slot->status.generation < agent->plan->generation;
    return (slot->fenced || !is_fresh(slot)) &&
           (wish.next_fresh || (wish.worker && wish.instance == 0 && before));
}

static void take_exit(struct agent *agent, const struct agent_event *event,
                      struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[event->slot];
    if (slot->process == PROCESS_NONE)
        return;
    slot->process = PROCESS_NONE;
    if (slot->refused)
        return;
    slot->end.generation = agent->plan ? agent->plan->generation : 0;
    if (slot->fenced || (slot->was_prepared && event->exit_code == 0))
        slot->end.how = END_LEFT;
    else if (slot->was_prepared)
        slot->end.how = END_DEAD;
    /* The slot of a worker that accused itself may be mended while its plan is still in force. Its
     * end stays known, so that no other process enters that generation. */
    if (!slot->bad) {
        snprintf(slot->text, sizeof(slot->text), "%s", event->text);
        if (slot->end.how == END_DEAD && !slot->killed)
            count_crash(agent, slot, event, actions);
        else if (!slot->was_prepared && !slot->fenced)
            count_death_at_start(agent, slot, event, actions);
    }
    if (makes_room(agent, event->slot))
        slot->end.how = END_NONE;
}

/* --- converging --- */

static uint64_t hello_due(const struct agent *agent, const struct agent_slot *slot)
{
    return slot->spawned_at_ns + TIMEOUTS_WORKER_START * agent->failure_timeout_ns;
}

static void spawn(struct agent *agent, unsigned index, uint64_t now_ns,
                  struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    slot->process = PROCESS_STARTING;
    slot->greeted = slot->found = slot->was_prepared = slot->fenced = slot->killed = false;
    slot->wanted = false;
    instant_clear(&slot->joined);
    slot->end.how = END_NONE;
    memset(&slot->status, 0, sizeof(slot->status));
    slot->sent = (struct slot_sent){0};
    slot->deaths.respawn_at_ns = 0;
    slot->spawned_at_ns = now_ns;
    wake(actions, hello_due(agent, slot));
    emit(actions, AGENT_SPAWN, index);
}

static void kill_process(struct agent_slot *slot, unsigned index, struct agent_actions *actions)
{
    if (slot->killed)
        return;
    slot->killed = true;
    emit(actions, AGENT_KILL, index);
}

/* Stop the process: send STOP, and SIGKILL it after failure_timeout. Without a connection there is
 * no way to send STOP, so SIGKILL it at once. */
static void stop(struct agent *agent, unsigned index, uint64_t now_ns,
                 struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    slot->fenced = true;
    if (slot->process != PROCESS_CONNECTED) {
        kill_process(slot, index, actions);
        return;
    }
    if (!slot->sent.stop.is_set) {
        slot->sent.stop = instant_at(now_ns);
        emit(actions, AGENT_SEND_STOP, index);
    }
    uint64_t due = slot->sent.stop.ns + agent->failure_timeout_ns;
    if (now_ns >= due)
        kill_process(slot, index, actions);
    else
        wake(actions, due);
}

static void send_prepare(struct slot_sent *sent, unsigned index, const struct plan *plan,
                         struct agent_actions *actions)
{
    if (agent_was_sent_prepare(sent, plan))
        return;
    sent->prepare = plan->generation;
    memcpy(sent->prepare_key, plan->links.key, sizeof(sent->prepare_key));
    emit(actions, AGENT_SEND_PREPARE, index)->plan = plan;
}

static void send_switch(struct slot_sent *sent, unsigned index, const struct plan *plan,
                        struct agent_actions *actions)
{
    if (sent->switch_to == plan->generation)
        return;
    sent->switch_to = plan->generation;
    emit(actions, AGENT_SEND_SWITCH, index)->plan = plan;
}

/* Send PREPARE; once that is answered and the plan is in force, send SWITCH. */
static void bring_up(struct agent_slot *slot, unsigned index, const struct plan *plan,
                     bool in_force, struct agent_actions *actions)
{
    if (!agent_prepared_for(slot, plan))
        send_prepare(&slot->sent, index, plan, actions);
    else if (in_force)
        send_switch(&slot->sent, index, plan, actions);
}

/*
 * Return whether the worker missed a generation that trained without its state, because the worker
 * was stopped (SIGSTOP, say) or out of reach. Such a worker never reaches the boundary at which
 * @plan begins.
 */
static bool is_outdated(const struct agent_slot *slot, const struct plan *plan)
{
    return plan->change.planned && slot->status.generation < plan->follows;
}

/* Return whether the worker has obeyed a plan after a failure that leaves it out. */
static bool is_aside(const struct agent_slot *slot)
{
    return slot->status.phase == WORKER_STUCK && slot->status.cause == CAUSE_LEFT_OUT;
}

/* Keep a stuck worker for a while: its state may be the last copy, so the leader decides first. */
static void keep_for_a_while(struct agent *agent, unsigned index, uint64_t now_ns,
                             struct agent_actions *actions)
{
    uint64_t due =
        agent->slots[index].stuck_at_ns + TIMEOUTS_WORKER_LEFT_OUT * agent->failure_timeout_ns;
    if (now_ns >= due)
        stop(agent, index, now_ns, actions);
    else
        wake(actions, due);
}

/*
 * Return whether @plan continues from the survivors' memory and the worker was in the generation
 * that @plan follows or a later one, or was entering it: if that generation broke before it began,
 * the worker's state is as new as the survivors'.
 */
static bool may_step_aside(const struct agent_slot *slot, const struct plan *plan)
{
    uint64_t generation = MAX(slot->status.generation, slot->sent.switch_to);
    return !plan->change.planned && plan->layout.worker_count > 0 &&
           plan->start.source == PLAN_SOURCE_MEMORY && generation >= plan->follows &&
           slot->status.held_unit_count > 0;
}

/* Make the worker step aside. Only its report proves that it no longer trains, so a worker without
 * a report within failure_timeout is stopped. */
static void set_aside(struct agent *agent, unsigned index, uint64_t now_ns,
                      struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    if (is_aside(slot) && slot->status.generation == agent->plan->generation) {
        keep_for_a_while(agent, index, now_ns, actions);
        return;
    }
    if (slot->sent.switch_to != agent->plan->generation)
        slot->aside_due_ns = now_ns + agent->failure_timeout_ns;
    send_switch(&slot->sent, index, agent->plan, actions);
    if (now_ns >= slot->aside_due_ns)
        stop(agent, index, now_ns, actions);
    else
        wake(actions, slot->aside_due_ns);
}

/*
 * Return whether the worker must be killed at once: another generation replaces a generation that
 * this node ran by itself, without waiting for this worker to obey. A suspended worker would commit
 * once more when it wakes, before it hears of the new plan.
 */
static bool must_not_wake(const struct agent_slot *slot, const struct plan *plan)
{
    return !plan->change.planned && plan->layout.worker_count > 0 && slot->lone_generation != 0 &&
           slot->status.generation == slot->lone_generation &&
           slot->status.phase == WORKER_RUNNING && plan->generation > slot->lone_generation;
}

static void put_down(struct agent_slot *slot, unsigned index, struct agent_actions *actions)
{
    slot->fenced = true;
    kill_process(slot, index, actions);
}

/* Lead a worker with state out: the plan in force leaves it out, or is an empty plan. */
static void lead_out(struct agent *agent, unsigned index, uint64_t now_ns,
                     struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    const struct plan *plan = agent->plan;
    if (must_not_wake(slot, plan))
        put_down(slot, index, actions);
    else if (may_step_aside(slot, plan) && !slot->wanted)
        set_aside(agent, index, now_ns, actions);
    else if (!plan->change.planned || is_aside(slot) || is_outdated(slot, plan))
        stop(agent, index, now_ns, actions);
    else if (slot->status.phase != WORKER_STUCK)
        send_switch(&slot->sent, index, plan,
                    actions); /* the worker leaves by itself at the boundary */
    else
        keep_for_a_while(agent, index, now_ns, actions); /* the switch broke */
}

/* Lead a process that has sent its status and has a rank in the plan in force. */
static void lead_member(struct agent *agent, unsigned index, const struct wish *wish,
                        uint64_t now_ns, struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    const struct plan *plan = agent->plan;
    if (wish->instance != 0 && slot->status.instance != wish->instance) {
        stop(agent, index, now_ns, actions);
    } else if (is_fresh(slot)) {
        if (wish->worker)
            bring_up(slot, index, plan, true, actions);
        else
            stop(agent, index, now_ns, actions);
    } else if (agent_prepared_for(slot, plan) && plan->layout.worker_count > 0) {
        send_switch(&slot->sent, index, plan,
                    actions); /* got its state on the way into an earlier plan */
    } else if (slot->status.generation >= plan->generation) {
        return; /* the worker is already in this generation, broken or not */
    } else if (plan->layout.worker_count == 0) {
        lead_out(agent, index, now_ns, actions);
    } else if (is_outdated(slot, plan)) {
        stop(agent, index, now_ns, actions); /* the plan means another process */
    } else if (!plan->change.planned || slot->status.phase != WORKER_STUCK) {
        send_switch(&slot->sent, index, plan, actions);
    }
}

static void lead_stranger(struct agent *agent, unsigned index, const struct wish *wish,
                          uint64_t now_ns, struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    if (is_fresh(slot) || (wish->next_fresh && is_aside(slot)))
        stop(agent, index, now_ns, actions);
    else if (slot->status.generation <= agent->plan->generation)
        lead_out(agent, index, now_ns, actions);
}

/* Return whether the process, which is new to the job, was started before this node was upgraded to
 * the link protocol of the plan that needs one. */
static bool speaks_otherwise(const struct agent *agent, const struct agent_slot *slot,
                             const struct wish *wish)
{
    const struct plan *plan = wish->next_fresh ? agent->next : agent->plan;
    assert(plan); /* no plan, no wish */
    return is_fresh(slot) && slot->status.links != 0 && plan->links.protocol != 0 &&
           slot->status.links != plan->links.protocol;
}

static void lead_process(struct agent *agent, unsigned index, const struct wish *wish,
                         uint64_t now_ns, struct agent_actions *actions)
{
    struct agent_slot *slot = &agent->slots[index];
    if (slot->fenced || slot->refused || slot->bad || !agent->plan) {
        stop(agent, index, now_ns, actions);
    } else if (!slot->greeted) {
        uint64_t due = hello_due(agent, slot);
        if (slot->process == PROCESS_STARTING && !wish->fresh)
            stop(agent, index, now_ns, actions);
        else if (now_ns >= due)
            kill_process(slot, index, actions); /* counts as a death at start */
        else
            wake(actions, due);
    } else if (wish->fresh && speaks_otherwise(agent, slot, wish)) {
        stop(agent, index, now_ns, actions);
    } else if (is_fresh(slot) && wish->next_fresh) {
        bring_up(slot, index, agent->next, false, actions);
    } else if (wish->worker || wish->donor) {
        lead_member(agent, index, wish, now_ns, actions);
    } else {
        lead_stranger(agent, index, wish, now_ns, actions);
    }
}

/* Return whether the plan expects workers of another link protocol than this node starts now, which
 * the plan's other workers would not understand. To the leader such a worker died at start, and the
 * next plan leaves this node out. */
static bool is_of_another_version(const struct agent *agent, const struct wish *wish)
{
    const struct plan *plan = wish->next_fresh ? agent->next : agent->plan;
    assert(plan); /* no plan, no wish */
    return plan->links.protocol != 0 && plan->links.protocol != agent->links;
}

static void start_none(struct agent *agent, struct agent_slot *slot)
{
    memset(&slot->status, 0, sizeof(slot->status));
    slot->end.how = END_DEAD;
    slot->end.generation = agent->plan ? agent->plan->generation : 0;
    snprintf(slot->text, sizeof(slot->text), "this node starts workers of link protocol %u now",
             agent->links);
}

static void converge(struct agent *agent, uint64_t now_ns, struct agent_actions *actions)
{
    for (unsigned index = 0; agent->knows_plan && index < REPORT_WORKERS_MAX; index++) {
        struct agent_slot *slot = &agent->slots[index];
        struct wish wish = wish_of(agent, index);
        if (slot->process != PROCESS_NONE)
            lead_process(agent, index, &wish, now_ns, actions);
        else if (!wish.fresh || slot->bad || slot->refused || slot->end.how != END_NONE)
            continue;
        else if (is_of_another_version(agent, &wish))
            start_none(agent, slot);
        else if (now_ns >= slot->deaths.respawn_at_ns)
            spawn(agent, index, now_ns, actions);
        else
            wake(actions, slot->deaths.respawn_at_ns);
    }
}

/* Return whether some worker that a new firnd found has not sent its status yet. */
static bool somebody_is_unknown(const struct agent *agent)
{
    for (unsigned index = 0; index < REPORT_WORKERS_MAX; index++)
        if (agent->slots[index].process == PROCESS_CONNECTED &&
            (agent->slots[index].status.instance == 0 || agent->slots[index].found))
            return true;
    return false;
}

static void report_news(struct agent *agent, struct agent_actions *actions)
{
    struct node_report *draft = agent->draft;
    if (!agent->plan || somebody_is_unknown(agent))
        return;
    agent_fill_report(agent, draft);
    if (!agent_report_news(agent, draft))
        return;
    agent->draft = agent->reported;
    agent->reported = draft;
    emit(actions, AGENT_REPORT, 0);
}

const struct node_report *agent_last_report(const struct agent *agent)
{
    return agent->reported;
}

static void take_event(struct agent *agent, const struct agent_event *event, struct plan *plan,
                       struct agent_actions *actions)
{
    switch (event->type) {
    case AGENT_PLAN:
        take_plan(agent, plan);
        break;
    case AGENT_REPORTED:
        take_reported(agent, event, actions);
        break;
    case AGENT_NEXT:
        take_next(agent, plan);
        break;
    case AGENT_WORKER_UP:
        take_up(agent, event);
        break;
    case AGENT_WORKER_STATUS:
        take_status(agent, event, actions);
        break;
    case AGENT_WORKER_EXIT:
        take_exit(agent, event, actions);
        break;
    case AGENT_SLOT_WANTED:
        agent->slots[event->slot].wanted = true;
        break;
    case AGENT_SLOT_MENDED:
        take_mended(&agent->slots[event->slot]);
        break;
    case AGENT_TICK:
        break;
    }
}

void agent_step(struct agent *agent, const struct agent_event *event,
                struct agent_actions *ret_actions)
{
    assert(event->slot < REPORT_WORKERS_MAX);
    bool carries_plan = (event->type == AGENT_PLAN || event->type == AGENT_NEXT) && event->plan;
    struct plan *plan = carries_plan ? plan_share(event->plan) : NULL;
    ret_actions->count = 0;
    ret_actions->wake_at_ns = UINT64_MAX;
    take_event(agent, event, plan, ret_actions);
    converge(agent, event->now_ns, ret_actions);
    report_news(agent, ret_actions);
}
