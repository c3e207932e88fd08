#include "worker/session/commands.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "worker/session/plan_match.h"
#include "worker/session/reserve.h"
#include "worker/session/status_report.h"
#include "worker/session/trainer.h"

/* ---- on the control thread ---- */

/* Interrupt mesh_open(), in case the main thread is there. */
static void wake_main(struct commands *commands)
{
    uint64_t one = 1;

    if (write(commands->cancel, &one, sizeof(one)) < 0)
        log_warning("waking the main thread: %s", strerror(errno));
}

static void break_off(struct commands *commands, struct session_links *links, const char *reason)
{
    wake_main(commands);
    pthread_mutex_lock(&links->lock);
    if (links->mesh)
        mesh_abort(links->mesh, reason);
    pthread_mutex_unlock(&links->lock);
}

/* Wake the main thread, which may be waiting for permission to commit. */
static void let_commit(struct commands *commands, struct session_links *links)
{
    __atomic_store_n(&commands->held_generation, 0, __ATOMIC_RELEASE);
    pthread_mutex_lock(&links->lock);
    if (links->mesh)
        mesh_ask_again(links->mesh);
    pthread_mutex_unlock(&links->lock);
}

/* True if the main thread must handle @plan: a new firnd may send the plan in force again. */
static bool is_newer(const struct commands *commands, const struct plan *plan)
{
    return plan && plan->generation > __atomic_load_n(&commands->generation, __ATOMIC_ACQUIRE);
}

/* Another planned change replaces the one whose switch the main thread waits for, or revokes the
 * one for which it has left a step. */
static void announce(struct commands *commands, const struct plan *plan)
{
    uint64_t generation = __atomic_load_n(&commands->generation, __ATOMIC_ACQUIRE);

    __atomic_store_n(&commands->announced, plan->generation, __ATOMIC_RELEASE);
    if (__atomic_load_n(&commands->waits_for_switch, __ATOMIC_ACQUIRE) ||
        plan_revokes(plan, generation))
        wake_main(commands);
}

void commands_observe(void *context, const struct control_message *message)
{
    struct trainer *trainer = context;

    if (message->type == CONTROL_STOP) {
        __atomic_store_n(&trainer->commands.stopping, true, __ATOMIC_RELEASE);
        break_off(&trainer->commands, &trainer->links, "firnd ordered this worker to stop");
    } else if (message->type == CONTROL_HOLD) {
        __atomic_store_n(&trainer->commands.held_generation, message->progress.generation,
                         __ATOMIC_RELEASE);
    } else if (message->type == CONTROL_GO_ON) {
        let_commit(&trainer->commands, &trainer->links);
    } else if (message->type == CONTROL_SWITCH && is_newer(&trainer->commands, message->plan)) {
        if (!message->plan->change.planned)
            break_off(&trainer->commands, &trainer->links, "a newer generation replaces this one");
        else if (message->plan->change.breaks_off)
            break_off(&trainer->commands, &trainer->links,
                      "rank 0 cannot hear of the generation that follows");
        else
            announce(&trainer->commands, message->plan);
    } else if (message->type == CONTROL_PREPARE && is_newer(&trainer->commands, message->plan)) {
        wake_main(&trainer->commands); /* stop waiting for the links of the current plan */
    }
}

/* ---- on the main thread ---- */

bool commands_stopping(const struct commands *commands)
{
    return __atomic_load_n(&commands->stopping, __ATOMIC_ACQUIRE);
}

static void prepare(struct trainer *trainer, const struct plan *plan)
{
    struct error error = {0};

    if (plan_match_check(plan, trainer->options->device, &error)) {
        log_error("%s", error.text);
        status_report_send(trainer, WORKER_BAD, error.text); /* not a fault of the job */
        return;
    }
    start_watch_begin(trainer->start_watch, trainer->commands.generation, "takes its memory");
    reserve_memory(trainer, plan);
    (void)start_watch_end(trainer->start_watch); /* PREPARED follows */
    trainer->commands.prepared = plan->generation;
    status_report_send(trainer, WORKER_PREPARED, "");
}

/* A worker that computes is still PREPARED until all its units have arrived. */
static bool waits_for_plan(const struct trainer *trainer)
{
    enum worker_phase phase = trainer->report.phase;

    return (phase == WORKER_STARTING || phase == WORKER_PREPARED) && !trainer->engine;
}

static void handle_message(struct trainer *trainer, struct control_message *message)
{
    switch (message->type) {
    case CONTROL_PREPARE:
        if (is_newer(&trainer->commands, message->plan) && waits_for_plan(trainer))
            prepare(trainer, message->plan);
        break;
    case CONTROL_SWITCH:
        /* A planned plan takes over at a step boundary, which a stuck worker does not reach. */
        if (message->plan &&
            !(message->plan->change.planned && trainer->report.phase == WORKER_STUCK) &&
            message->plan->generation > trainer->commands.generation &&
            pending_plan_offer(&trainer->commands.pending, message->plan))
            message->plan = NULL;
        break;
    case CONTROL_CHECKPOINT:
        trainer->checkpoints.unanswered = 0;
        if (message->committed) {
            trainer->checkpoints.recorded_step =
                MAX(trainer->checkpoints.recorded_step, message->checkpoint.step);
            snapshot_retain(trainer->checkpoints.snapshot, &message->checkpoint);
        } else if (message->checkpoint.generation == trainer->commands.generation) {
            trainer->checkpoints.refused_step = message->checkpoint.step;
        }
        break;
    default:
        break;
    }
    control_message_done(message);
}

void commands_take(struct trainer *trainer, uint64_t deadline_ns)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    while (message && control_server_take(trainer->report.control, deadline_ns, message)) {
        handle_message(trainer, message);
        memset(message, 0, sizeof(*message));
        deadline_ns = 0;
    }
}

static uint64_t deadline_after(const struct worker_options *options, unsigned timeouts)
{
    return clock_monotonic_ns() + timeouts * options->failure_timeout_ns;
}

void commands_await_stop(struct trainer *trainer)
{
    while (!commands_stopping(&trainer->commands))
        commands_take(trainer, deadline_after(trainer->options, 1));
}

struct plan *commands_next_plan(struct trainer *trainer, uint64_t deadline_ns)
{
    while (!commands_stopping(&trainer->commands) && !trainer->commands.pending.plan &&
           clock_monotonic_ns() < deadline_ns)
        commands_take(trainer, MIN(deadline_ns, deadline_after(trainer->options, 1)));
    return commands_stopping(&trainer->commands) ? NULL
                                                 : pending_plan_take(&trainer->commands.pending);
}

const struct plan *commands_announced_plan(struct trainer *trainer, uint64_t generation)
{
    uint64_t deadline_ns = deadline_after(trainer->options, TIMEOUTS_ANNOUNCED_PLAN);
    struct pending_plan *pending = &trainer->commands.pending;

    pending_plan_await(pending, generation);
    while (!commands_stopping(&trainer->commands) && !pending_plan_is_here(pending) &&
           clock_monotonic_ns() < deadline_ns)
        commands_take(trainer, deadline_ns);
    return pending_plan_is_here(pending) ? pending->plan : NULL;
}

static bool has_plan_of(const struct commands *commands, uint64_t generation)
{
    const struct plan *plan = commands->pending.plan;

    return plan && plan->generation == generation;
}

uint64_t commands_ready_generation(struct trainer *trainer)
{
    struct commands *commands = &trainer->commands;
    uint64_t announced = __atomic_load_n(&commands->announced, __ATOMIC_ACQUIRE);

    if (announced <= commands->generation)
        return 0;
    if (!has_plan_of(commands, announced))
        commands_take(trainer, 0);
    if (!has_plan_of(commands, announced))
        return 0; /* it may arrive at any moment */
    return reserve_is_ready(trainer, commands->pending.plan) ? announced : 0;
}
