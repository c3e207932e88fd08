#include "sim/worker/sim_worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/timeouts.h"
#include "elastic/recovery/holdings.h"
#include "protocol/generation_entry.h"
#include "sim/check/sim_check.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_node.h"
#include "sim/node/sim_process.h"
#include "sim/sim_scale.h"
#include "sim/worker/sim_input.h"
#include "sim/worker/sim_replication.h"

const char *sim_worker_name(const struct sim_worker *worker)
{
    return worker->name;
}

struct sim_worker *sim_worker_at(const struct sim *sim, unsigned node, unsigned slot)
{
    for (unsigned i = sim->worker_count; i-- > 0;) {
        struct sim_worker *worker = sim->workers[i];
        if (worker->alive && worker->node == node && worker->slot == slot && !worker->unlinked)
            return worker;
    }
    return NULL;
}

void sim_worker_accept(struct sim_worker *worker, struct worker_process *process)
{
    AUTO_FREE struct control_message *message = sim_allocate(1, sizeof(*message));
    worker->process = process;
    worker->accepted = true;
    message->type = CONTROL_STATUS;
    message->status = *worker->kept_status;
    sim_process_hear(process, message);
    if (worker->kept_checkpoint.step == 0)
        return;
    message->type = CONTROL_CHECKPOINT;
    message->checkpoint = worker->kept_checkpoint;
    sim_process_hear(process, message);
}

/* ---- commands ---- */

static void command_free(struct sim_command *command)
{
    plan_free(command->plan);
    free(command);
}

static void break_off(struct sim_worker *worker)
{
    worker->cancelled = true;
    if (worker->mesh && worker->mesh->state != SIM_MESH_FAILED)
        sim_mesh_fail(worker->mesh,
                      worker->mesh->state == SIM_MESH_OPENING ? -ECANCELED : -ECONNRESET);
}

/* A new planned change replaces the change whose switch a newcomer waits for, or revokes the change
 * for which the worker has left a step. */
static void announce(struct sim_worker *worker, const struct plan *plan)
{
    worker->announced = plan->generation;
    worker->share.announced_ns = worker->sim->now_ns;
    bool newcomer = worker->plan && worker->plan->layout.worker_count > 0 &&
                    generation_entry_is_newcomer(worker->plan, worker->rank);
    if ((newcomer || plan_revokes(plan, worker->generation)) && worker->mesh &&
        worker->mesh->state == SIM_MESH_OPENING)
        sim_mesh_fail(worker->mesh, -ECANCELED);
}

static void tell_announced(struct sim_worker *worker, const struct sim_command *command)
{
    if (command->type == CONTROL_SWITCH && worker->announced > worker->generation)
        sim_division_announced(worker);
}

/* React to a command on the control thread. */
static void observe(struct sim_worker *worker, const struct sim_command *command)
{
    if (command->type == CONTROL_STOP) {
        if (worker->sim->nodes[worker->node].machine.is_deaf)
            return;
        worker->stopping = true;
        break_off(worker);
    } else if (command->type == CONTROL_HOLD) {
        worker->held_generation = worker->sim->bug == BUG_GOES_ON_ALONE ? 0 : command->generation;
    } else if (command->type == CONTROL_GO_ON) {
        worker->held_generation = 0;
    } else if (command->type == CONTROL_SWITCH) {
        if (command->plan->generation <= worker->generation)
            return;
        if (command->plan->change.planned && !command->plan->change.breaks_off)
            announce(worker, command->plan);
        else
            break_off(worker);
    } else if (command->type == CONTROL_PREPARE) {
        if (command->plan->generation <= worker->generation)
            return;
        worker->cancelled = true;
        if (worker->mesh && worker->mesh->state == SIM_MESH_OPENING)
            sim_mesh_fail(worker->mesh, -ECANCELED);
    } else if (command->type == CONTROL_CHECKPOINT) {
        control_checkpoint_done(&worker->kept_checkpoint); /* answered */
    }
}

static void take_commands(void *context)
{
    struct sim_worker *worker = context;
    worker->command_pump = NULL;
    while (worker->commands && worker->commands->due_ns <= worker->sim->now_ns) {
        struct sim_command *command = worker->commands, **end = &worker->mailbox;
        worker->commands = command->next;
        observe(worker, command);
        while (*end)
            end = &(*end)->next;
        command->next = NULL;
        *end = command;
        tell_announced(worker, command);
    }
    if (worker->commands)
        worker->command_pump =
            sim_post(worker->sim, worker->commands->due_ns, &worker->pause, take_commands, worker);
    sim_worker_wake(worker);
}

void sim_worker_command(struct sim_worker *worker, struct sim_command *command)
{
    struct sim_command **end = &worker->commands;
    uint64_t due_ns = sim_transit(worker->sim, worker->node, worker->node);
    for (; *end; end = &(*end)->next)
        due_ns = MAX(due_ns, (*end)->due_ns);
    command->due_ns = due_ns;
    command->next = NULL;
    *end = command;
    if (!worker->command_pump)
        worker->command_pump = sim_post(worker->sim, due_ns, &worker->pause, take_commands, worker);
}

static void handle(struct sim_worker *worker, struct sim_command *command)
{
    switch (command->type) {
    case CONTROL_PREPARE:
        if (command->plan->links.protocol != worker->links)
            sim_fail(worker->sim, "%s speaks link protocol %u and is to join a plan of %u",
                     worker->name, worker->links, command->plan->links.protocol);
        if (command->plan->generation > worker->generation &&
            (worker->phase == WORKER_STARTING || worker->phase == WORKER_PREPARED) &&
            !worker->engine) {
            worker->prepared = command->plan->generation;
            worker_report(worker, WORKER_PREPARED);
        }
        break;
    case CONTROL_SWITCH:
        if (!(command->plan->change.planned && worker->phase == WORKER_STUCK) &&
            command->plan->generation > worker->generation &&
            pending_plan_offer(&worker->pending, command->plan))
            command->plan = NULL;
        break;
    case CONTROL_CHECKPOINT:
        if (command->committed) {
            worker->recorded_step = MAX(worker->recorded_step, command->step);
            if (!job_keeps_copies(&worker->sim->spec)) /* with copies every firnd sweeps its own */
                sim_disk_retain(worker->sim, command->kept_from, command->step);
        } else if (command->generation == worker->generation) {
            worker->refused_step = command->step;
        }
        break;
    default:
        break;
    }
    command_free(command);
}

void worker_messages(struct sim_worker *worker)
{
    while (worker->mailbox) {
        struct sim_command *command = worker->mailbox;
        worker->mailbox = command->next;
        handle(worker, command);
    }
}

/* ---- the main thread ---- */

void worker_busy(struct sim_worker *worker, uint64_t least_us, uint64_t most_us)
{
    worker->busy_until_ns = sim_soon(worker->sim, least_us, most_us);
}

void worker_go(struct sim_worker *worker, enum sim_point point)
{
    worker->point = point;
    sim_faults_at(worker);
}

static void ring(void *context)
{
    struct sim_worker *worker = context;
    worker->alarm = NULL;
    sim_worker_wake(worker);
}

void worker_alarm(struct sim_worker *worker, uint64_t at_ns)
{
    sim_cancel(worker->sim, worker->alarm);
    worker->alarm = sim_post(worker->sim, at_ns, &worker->pause, ring, worker);
}

static void close_generation(struct sim_worker *worker)
{
    sim_snapshot_reset(worker);
    sim_division_keep(worker);
    handover_drop_partial(worker);
    worker->engine = false;
    memset(worker->gradients_step, 0, sizeof(worker->gradients_step));
    sim_mesh_close(worker->mesh);
    worker->mesh = NULL;
}

static void cut_wires(struct sim_worker *worker)
{
    sim_replication_stop(worker->snapshot.replication);
    worker->snapshot.replication = NULL;
    worker->alive = worker->listening = false;
    worker->died_ns = worker->sim->now_ns;
    worker->mesh = NULL;
    sim_cancel(worker->sim, worker->wake);
    sim_cancel(worker->sim, worker->alarm);
    sim_cancel(worker->sim, worker->command_pump);
    worker->wake = worker->alarm = worker->command_pump = NULL;
}

void worker_exit(struct sim_worker *worker, int exit_code)
{
    sim_trace(worker->sim, "  %s exits with %d", worker->name, exit_code);
    sim_mesh_close(worker->mesh);
    cut_wires(worker);
    if (worker->process)
        sim_process_exited(worker->process, exit_code);
}

void sim_worker_kill(struct sim_worker *worker)
{
    if (!worker->alive)
        return;
    sim_trace(worker->sim, "  %s is killed at point %d", worker->name, worker->point);
    sim_mesh_reset(worker->mesh);
    cut_wires(worker);
    if (worker->process)
        sim_process_exited(worker->process, -9);
}

void sim_worker_pause(struct sim_worker *worker, uint64_t until_ns)
{
    worker->pause.until_ns = MAX(worker->pause.until_ns, until_ns);
}

static void go_stuck(struct sim_worker *worker)
{
    worker_report(worker, WORKER_STUCK);
    pending_plan_forget_planned(&worker->pending);
}

void worker_broken(struct sim_worker *worker, int status)
{
    if (worker->stopping) {
        worker_exit(worker, 0);
        return;
    }
    sim_division_keep(worker);
    if (status == -ECONNRESET && sim_division_leaves(worker))
        return;
    worker_go(worker, POINT_WAIT);
    if (status == -ECANCELED)
        return;
    if (worker->mesh)
        sim_mesh_fail(worker->mesh, -ECONNRESET);
    handover_drop_partial(worker);
    worker->cause = dispute_let_go(worker);
    go_stuck(worker);
    worker->cause = CAUSE_NONE;
}

static struct generation_entry entry_of(const struct sim_state *state)
{
    return (struct generation_entry){.applied_step = state->applied_step,
                                     .holds = state->holds,
                                     .has_state = !sim_state_empty(state)};
}

/* Apply a step that the survivors agreed to keep, before the old engine is freed. */
static void settle(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    struct sim_state *state = &worker->state;
    const struct generation_entry entry = entry_of(state);
    if (generation_entry_applies(&entry, plan)) {
        struct sim_record record;
        sim_record_from(&plan->start.commit, &record);
        session_apply(worker, &record);
        sim_state_drop(state, worker->keeps);
    }
    if (worker->sim->bug != BUG_KEPT_GRADIENTS)
        state->holds = false;
}

static bool fits(struct sim_worker *worker)
{
    const struct plan *plan = worker->plan;
    const struct generation_entry entry = entry_of(&worker->state);
    bool held[SIM_UNITS];
    switch (generation_entry_state(&entry, plan, worker->rank)) {
    case GENERATION_ENTRY_KEEPS:
        break;
    case GENERATION_ENTRY_DROPS:
        sim_state_drop(&worker->state, NULL);
        sim_check_forget(worker);
        break;
    case GENERATION_ENTRY_REFUSES:
        return worker->sim->bug == BUG_MOVE_OF_OTHER_STEP;
    }
    sim_state_list_held(&worker->state, held);
    return holdings_lacking(held, SIM_UNITS, plan, worker->rank) == SIM_UNITS;
}

static void open_links(struct sim_worker *worker)
{
    bool newcomer = generation_entry_is_newcomer(worker->plan, worker->rank);
    worker->cancelled = false;
    pending_plan_enter(&worker->pending, newcomer ? 0 : worker->generation);
    worker_messages(worker);
    if (worker->stopping ||
        generation_entry_is_replaced(worker->pending.plan, worker->generation, newcomer)) {
        worker_broken(worker, -ECANCELED);
        return;
    }
    sim_mesh_open(worker, worker->plan, newcomer);
    worker_go(worker, POINT_LINKS);
}

void worker_leave(struct sim_worker *worker)
{
    worker_report(worker, WORKER_LEFT);
    worker_exit(worker, 0);
}

/* The plan continues from the state here, but without this worker: step aside. */
static void leave_out(struct sim_worker *worker)
{
    const struct generation_entry entry = entry_of(&worker->state);
    if (generation_entry_steps_aside(&entry, worker->plan)) {
        worker->cause = CAUSE_LEFT_OUT;
        worker_go(worker, POINT_WAIT);
        go_stuck(worker);
        worker->cause = CAUSE_NONE;
        return;
    }
    worker_leave(worker);
}

/* worker/session/session.c's finish_early() */
void worker_finish_early(struct sim_worker *worker)
{
    close_generation(worker);
    sim_division_forget(worker);
    sim_mesh_open(worker, worker->pending.plan, false)->ends = true;
    worker_go(worker, POINT_LINKS);
}

static void begin_restore(struct sim_worker *worker)
{
    uint64_t scaled_ns =
        sim_scale_restore_ns(worker->sim, worker->instance, worker->plan->generation);
    dispute_memory_rollback(&worker->rounds.disputes);
    sim_state_drop(&worker->state, NULL); /* memory does not suffice for both states */
    sim_check_forget(worker);
    worker_go(worker, POINT_RESTORE);
    worker_busy(worker, 5000, 60000);
    if (worker->plan->start.source == PLAN_SOURCE_CHECKPOINT)
        worker->busy_until_ns += worker->sim->costs.restore_ns;
    worker->ready_ns = scaled_ns > 0 ? worker->sim->now_ns + scaled_ns : 0;
}

void worker_switch(struct sim_worker *worker)
{
    sim_check_switch(worker->sim, worker, worker->pending.plan);
    plan_free(worker->plan);
    const struct plan *plan = worker->plan = pending_plan_take(&worker->pending);
    worker->generation = plan->generation;
    worker->stay = (struct stay){0};
    int rank =
        plan_layout_find(&plan->layout, sim_node_name(worker->sim, worker->node), worker->slot);
    worker->rounds.disputed = DISPUTE_NOTHING;
    settle(worker);
    close_generation(worker);
    worker->unreached.count = 0;
    if (rank < 0) {
        leave_out(worker);
        return;
    }
    worker->rank = (unsigned)rank;
    if (!fits(worker)) {
        worker_broken(worker, -ESTALE);
        return;
    }
    if (plan->change.planned)
        worker_report(worker, WORKER_PREPARED);
    if (worker->rank < plan->layout.worker_count && plan->start.source != PLAN_SOURCE_MEMORY) {
        begin_restore(worker);
        return;
    }
    open_links(worker);
}

/* Refuse the job, which cannot begin here. */
static bool refuse_input(struct sim_worker *worker)
{
    sim_input_refused(worker);
    worker_report(worker, WORKER_REFUSED);
    worker_exit(worker, 0);
    return false;
}

/* worker/session/start_watch.c */
static void report_start(struct sim_worker *worker)
{
    uint64_t now_ns = worker->sim->now_ns;
    worker->cause = CAUSE_STARTS;
    worker_report(worker, WORKER_STARTING);
    worker->cause = CAUSE_NONE;
    worker->busy_until_ns =
        MIN(now_ns + TIMEOUTS_START_REPORT * SIM_FAILURE_TIMEOUT, worker->ready_ns);
}

static bool at_restore(struct sim_worker *worker)
{
    if (worker->sim->now_ns < worker->ready_ns && !worker->stopping) {
        report_start(worker);
        return true;
    }
    bool lacks_input = sim_input_is_lacking(worker) && !worker->stopping;
    if (lacks_input && worker->sim->bug != BUG_HASTY_LEADER)
        return refuse_input(worker);
    int status = lacks_input ? -EACCES : sim_restore(worker);
    if (status == 0) {
        worker_report(worker, WORKER_PREPARED); /* the state is read */
        open_links(worker);
    } else if (worker->stopping) {
        worker_exit(worker, 0);
    } else { /* the leader takes an older checkpoint, unless this one is only out of reach */
        worker->cause = status == -ENOENT         ? CAUSE_CHECKPOINT_LOST
                        : status == -EHOSTUNREACH ? CAUSE_CHECKPOINT_AWAY
                                                  : CAUSE_NONE;
        worker_go(worker, POINT_WAIT);
        go_stuck(worker);
        worker->cause = CAUSE_NONE;
    }
    return worker->alive;
}

static bool at_boot(struct sim_worker *worker)
{
    worker->listening = true;
    worker_report(worker, WORKER_STARTING);
    worker_go(worker, POINT_DEVICE);
    worker_busy(worker, 5000, 100000);
    uint64_t device_ns = sim_scale_device_ns(worker->sim, worker->instance);
    worker->ready_ns = device_ns > 0 ? worker->sim->now_ns + device_ns : 0;
    return true;
}

static bool port_is_taken(const struct sim_worker *worker)
{
    for (unsigned i = 0; i < worker->sim->worker_count; i++) {
        const struct sim_worker *other = worker->sim->workers[i];
        if (other != worker && other->alive && other->node == worker->node &&
            other->slot == worker->slot && other->point > POINT_DEVICE)
            return true;
    }
    return false;
}

static bool at_device(struct sim_worker *worker)
{
    if (worker->sim->now_ns < worker->ready_ns) {
        report_start(worker);
        return true;
    }
    if (worker->sim->nodes[worker->node].starts_fail) {
        worker_exit(worker, 1);
        return false;
    }
    if (port_is_taken(worker)) {
        sim_input_refused(worker);
        worker_report(worker, WORKER_REFUSED);
        worker_exit(worker, 1);
        return false;
    }
    if (worker->ready_ns > 0)
        worker_report(worker, WORKER_STARTING); /* the start is over */
    worker_go(worker, POINT_WAIT);
    return true;
}

static bool at_wait(struct sim_worker *worker)
{
    worker_messages(worker);
    if (worker->stopping) {
        worker_exit(worker, 0);
        return false;
    }
    if (!worker->pending.plan)
        return false;
    worker_switch(worker);
    return worker->alive;
}

static bool step(struct sim_worker *worker)
{
    switch (worker->point) {
    case POINT_BOOT:
        return at_boot(worker);
    case POINT_DEVICE:
        return at_device(worker);
    case POINT_WAIT:
        return at_wait(worker);
    case POINT_RESTORE:
        return at_restore(worker);
    case POINT_LINKS:
        return handover_at_links(worker);
    case POINT_HANDOVER:
        return handover_at_units(worker);
    case POINT_DONOR:
        return handover_at_donor(worker);
    default:
        return session_step(worker);
    }
}

static void run(void *context)
{
    struct sim_worker *worker = context;
    struct sim *sim = worker->sim;
    worker->wake = NULL;
    while (!sim->failed && worker->alive && worker->busy_until_ns <= sim->now_ns && step(worker))
        ;
    if (worker->alive && worker->busy_until_ns > sim->now_ns)
        sim_worker_wake(worker);
}

void sim_worker_wake(struct sim_worker *worker)
{
    if (!worker->wake && worker->alive)
        worker->wake = sim_post(worker->sim, worker->busy_until_ns, &worker->pause, run, worker);
}

/* ---- start and end ---- */

struct sim_worker *sim_worker_spawn(struct sim *sim, unsigned node, unsigned slot)
{
    struct sim_worker *worker = sim_allocate(1, sizeof(*worker));
    for (unsigned i = 0; i < sim->worker_count; i++)
        if (sim->workers[i]->node == node && sim->workers[i]->slot == slot)
            sim->workers[i]->unlinked = true; /* the new process takes its socket's name */
    sim->workers = realloc(sim->workers, (sim->worker_count + 1) * sizeof(struct sim_worker *));
    assert(sim->workers);
    sim->workers[sim->worker_count++] = worker;
    worker->sim = sim;
    worker->node = node;
    worker->slot = slot;
    worker->instance = sim_mix(sim->seed, sim->worker_count) >> 1;
    worker->links = sim->nodes[node].links;
    snprintf(worker->name, sizeof(worker->name), "%.4s/%u", sim_node_name(sim, node), slot);
    worker->alive = true;
    worker->kept_status = sim_allocate(1, sizeof(*worker->kept_status));
    worker->rounds.commit = sim_allocate(1, sizeof(*worker->rounds.commit));
    sim_trace(sim, "  %s is started", worker->name);
    worker_busy(worker, 2000, 60000);
    worker->busy_until_ns += sim->costs.spawn_ns;
    sim_worker_wake(worker);
    return worker;
}

static void free_commands(struct sim_command *command)
{
    while (command) {
        struct sim_command *next = command->next;
        command_free(command);
        command = next;
    }
}

void sim_worker_free(struct sim_worker *worker)
{
    sim_mesh_reset(worker->mesh);
    cut_wires(worker);
    free_commands(worker->commands);
    free_commands(worker->mailbox);
    plan_free(worker->plan);
    pending_plan_done(&worker->pending);
    straggler_free(worker->straggler);
    control_checkpoint_done(&worker->kept_checkpoint);
    free(worker->kept_status);
    free(worker->rounds.commit);
    dispute_done(&worker->rounds.dispute);
    division_round_done(&worker->rounds.division);
    sim_sums_done(worker);
    sim_copies_done(worker);
    free(worker);
}
