#include "sim/node/sim_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/node/sim_node.h"
#include "sim/worker/sim_worker.h"

#define CONNECT_RETRY_NS (20 * NS_PER_MS)

struct said {
    struct said *next;
    uint64_t due_ns;
    struct control_message message;
};

struct worker_process {
    struct sim *sim;
    const struct sim_pause *pause; /* of the daemon */
    const struct worker_process_callbacks *callbacks;
    void *context;
    struct sim_worker *worker;
    unsigned slot;
    bool connected, over;
    int exit_code;
    struct said *said, **said_end;
    struct sim_event *ears, *retry, *death;
};

static struct worker_process *process_new(const struct worker_process_options *options,
                                          struct sim_worker *worker)
{
    struct sim *sim = sim_now;
    struct worker_process *process = sim_allocate(1, sizeof(*process));
    process->sim = sim;
    process->pause = &sim->nodes[worker->node].firnd_pause;
    process->callbacks = options->callbacks;
    process->context = options->context;
    process->worker = worker;
    process->slot = options->slot;
    process->said_end = &process->said;
    worker->process = process;
    worker->accepted = false;
    return process;
}

static void said_free(struct said *said)
{
    control_checkpoint_done(&said->message.checkpoint);
    free(said);
}

void worker_process_free(struct worker_process *process)
{
    if (!process)
        return;
    sim_cancel(process->sim, process->ears);
    sim_cancel(process->sim, process->retry);
    sim_cancel(process->sim, process->death);
    if (process->worker->process == process) {
        process->worker->process = NULL;
        process->worker->accepted = false;
    }
    while (process->said) {
        struct said *said = process->said;
        process->said = said->next;
        said_free(said);
    }
    free(process);
}

/* ---- connecting ---- */

/* Accept the connection on the worker's control thread. */
static void accept_daemon(void *context)
{
    struct sim_worker *worker = context;
    if (worker->alive && worker->process && !worker->accepted)
        sim_worker_accept(worker, worker->process);
}

static void connect_now(struct worker_process *process)
{
    struct sim_worker *worker = process->worker;
    process->connected = true;
    sim_post(process->sim, sim_transit(process->sim, worker->node, worker->node), &worker->pause,
             accept_daemon, worker);
}

static void connect_again(void *context)
{
    struct worker_process *process = context;
    process->retry = NULL;
    if (!process->worker->listening) {
        process->retry = sim_post(process->sim, process->sim->now_ns + CONNECT_RETRY_NS,
                                  process->pause, connect_again, process);
        return;
    }
    connect_now(process);
    process->callbacks->connected(process->context, SIM_JOB, process->slot);
}

int worker_process_spawn(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error)
{
    unsigned node = sim_node_index(sim_now, options->config->node);
    (void)error;
    struct worker_process *process =
        process_new(options, sim_worker_spawn(sim_now, node, options->slot));
    process->retry = sim_post(process->sim, process->sim->now_ns + CONNECT_RETRY_NS, process->pause,
                              connect_again, process);
    *ret_process = process;
    return 0;
}

int worker_process_adopt(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error)
{
    unsigned node = sim_node_index(sim_now, options->config->node);
    struct sim_worker *worker = sim_worker_at(sim_now, node, options->slot);
    if (!worker || !worker->listening)
        return error_set(error, -ECONNREFUSED, "nobody is on slot %u", options->slot);
    *ret_process = process_new(options, worker);
    connect_now(*ret_process);
    return 0;
}

/* ---- from the worker ---- */

static bool is_hidden(const struct worker_process *process, const struct control_message *message)
{
    return process->sim->bug == BUG_SILENT_AGENT && message->type == CONTROL_STATUS &&
           message->status.phase == WORKER_STUCK;
}

static void hear(void *context)
{
    struct worker_process *process = context;
    process->ears = NULL;
    while (process->said && process->said->due_ns <= process->sim->now_ns) {
        struct said *said = process->said;
        process->said = said->next;
        if (!said->next)
            process->said_end = &process->said;
        if (!is_hidden(process, &said->message))
            process->callbacks->message(process->context, SIM_JOB, process->slot, &said->message);
        said_free(said);
    }
    if (process->said)
        process->ears =
            sim_post(process->sim, process->said->due_ns, process->pause, hear, process);
}

void sim_process_hear(struct worker_process *process, const struct control_message *message)
{
    struct said *said = sim_allocate(1, sizeof(*said));
    unsigned node = process->worker->node;
    said->due_ns = sim_transit(process->sim, node, node);
    said->message = *message;
    int status = control_checkpoint_copy(&message->checkpoint, &said->message.checkpoint);
    assert(status == 0);
    *process->said_end = said;
    process->said_end = &said->next;
    if (!process->ears)
        process->ears = sim_post(process->sim, said->due_ns, process->pause, hear, process);
}

static void die(void *context)
{
    struct worker_process *process = context;
    process->death = NULL;
    for (struct said *said = process->said; said; said = said->next)
        said->due_ns = 0; /* its last message comes before its end */
    sim_cancel(process->sim, process->ears);
    hear(process);
    process->callbacks->exited(process->context, SIM_JOB, process->slot, process->exit_code, "");
    worker_process_free(process);
}

void sim_process_exited(struct worker_process *process, int exit_code)
{
    unsigned node = process->worker->node;
    process->exit_code = exit_code;
    process->death =
        sim_post(process->sim, sim_transit(process->sim, node, node), process->pause, die, process);
}

/* ---- from firnd ---- */

void worker_process_send(struct worker_process *process, const struct control_message *message)
{
    if (!process->connected || !process->worker->alive)
        return;
    struct sim_command *command = sim_allocate(1, sizeof(*command));
    command->type = message->type;
    if (message->type == CONTROL_PREPARE || message->type == CONTROL_SWITCH) {
        command->plan = plan_copy(message->plan);
        assert(command->plan);
    }
    command->step = message->checkpoint.step;
    command->generation = message->type == CONTROL_CHECKPOINT ? message->checkpoint.generation
                                                              : message->progress.generation;
    command->kept_from = message->checkpoint.kept_from;
    command->committed = message->committed;
    sim_worker_command(process->worker, command);
}

static void kill_worker(void *context)
{
    sim_worker_kill(context);
}

void worker_process_kill(struct worker_process *process)
{
    sim_post(process->sim, process->sim->now_ns, NULL, kill_worker, process->worker);
}

int worker_process_pid(const struct worker_process *process)
{
    return (int)(process->worker->instance & 0x7fff);
}
