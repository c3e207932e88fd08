#include "bench/lib/paper_worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define APPLIED_STEP 10 /* any number, the same from all workers with state */

/* Pending messages, sent in this order. */
enum { SAY_HELLO = 1, SAY_PREPARED = 2, SAY_RUNNING = 4, SAY_STUCK = 8, SAY_LEFT = 16, DIE = 32 };

struct worker_process {
    struct worker_process *next, **back;
    const struct worker_process_callbacks *callbacks;
    void *context;
    char job[NAME_SIZE], node[NAME_SIZE], lost[NAME_SIZE];
    unsigned slot, pending;
    uint64_t instance, prepared, running; /* generations */
    unsigned first_unit, unit_count;
    sd_event_source *source;
};

static struct worker_process *workers;
static uint64_t instances;

static void say_status(struct worker_process *process, enum worker_phase phase, uint64_t generation)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));
    struct worker_report *status;

    if (!message)
        return;
    message->type = CONTROL_STATUS;
    status = &message->status;
    status->slot = process->slot;
    status->instance = process->instance;
    status->phase = phase;
    status->generation = generation;
    status->held_first_unit = process->first_unit;
    status->held_unit_count = process->unit_count;
    status->applied_step = process->unit_count ? APPLIED_STEP : 0;
    if (phase == WORKER_STUCK) {
        status->lost_count = 1;
        snprintf(status->lost[0], sizeof(status->lost[0]), "%.60s/0", process->lost);
        snprintf(status->text, sizeof(status->text), "lost %s/0", process->lost);
    }
    process->callbacks->message(process->context, process->job, process->slot, message);
}

/* Send the next pending message. Return false when the process has ended. */
static bool say_next(struct worker_process *process)
{
    unsigned next = process->pending & -process->pending;

    process->pending &= ~next;
    switch (next) {
    case SAY_HELLO:
        process->callbacks->connected(process->context, process->job, process->slot);
        say_status(process, WORKER_STARTING, 0);
        break;
    case SAY_PREPARED:
        say_status(process, WORKER_PREPARED, process->prepared);
        break;
    case SAY_RUNNING:
        say_status(process, WORKER_RUNNING, process->running);
        break;
    case SAY_STUCK:
        say_status(process, WORKER_STUCK, process->running);
        break;
    case SAY_LEFT:
        say_status(process, WORKER_LEFT, process->prepared);
        break;
    default:
        process->callbacks->exited(process->context, process->job, process->slot,
                                   process->lost[0] ? -9 : 0, "");
        worker_process_free(process);
        return false;
    }
    return true;
}

static int on_turn(sd_event_source *source, void *context)
{
    struct worker_process *process = context;

    if (say_next(process) && process->pending)
        sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
    return 0;
}

static void will_say(struct worker_process *process, unsigned what)
{
    process->pending |= what;
    sd_event_source_set_enabled(process->source, SD_EVENT_ONESHOT);
}

/* ---- daemon/jobs/worker_process.h ---- */

int worker_process_spawn(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error)
{
    struct worker_process *process = calloc(1, sizeof(*process));

    if (!process || sd_event_add_defer(options->event, &process->source, on_turn, process) < 0) {
        free(process);
        return error_set(error, -ENOMEM, "no memory for a worker on paper");
    }
    process->callbacks = options->callbacks;
    process->context = options->context;
    process->slot = options->slot;
    process->instance = ++instances;
    snprintf(process->job, sizeof(process->job), "%s", options->job);
    snprintf(process->node, sizeof(process->node), "%s", options->config->node);
    process->next = workers;
    process->back = &workers;
    if (workers)
        workers->back = &process->next;
    workers = process;
    will_say(process, SAY_HELLO);
    *ret_process = process;
    return 0;
}

int worker_process_adopt(const struct worker_process_options *options,
                         struct worker_process **ret_process, struct error *error)
{
    (void)options;
    (void)ret_process;
    return error_set(error, -ECONNREFUSED, "no worker on paper outlives its process");
}

void worker_process_free(struct worker_process *process)
{
    if (!process)
        return;
    *process->back = process->next;
    if (process->next)
        process->next->back = process->back;
    sd_event_source_disable_unref(process->source);
    free(process);
}

static void switch_to(struct worker_process *process, const struct plan *plan)
{
    int rank = plan_layout_find(&plan->layout, process->node, process->slot);

    if (rank < 0 || (unsigned)rank >= plan->layout.worker_count) {
        process->prepared = plan->generation;
        process->running = 0;
        process->first_unit = process->unit_count = 0;
        will_say(process, SAY_LEFT | DIE);
        return;
    }
    unsigned stage = (unsigned)rank % plan->layout.stage_count;
    process->running = plan->generation;
    process->lost[0] = '\0';
    process->first_unit = plan->layout.stage_first_unit[stage];
    process->unit_count = plan->layout.stage_first_unit[stage + 1] - process->first_unit;
    will_say(process, SAY_RUNNING);
}

void worker_process_send(struct worker_process *process, const struct control_message *message)
{
    switch (message->type) {
    case CONTROL_PREPARE:
        process->prepared = message->plan->generation;
        will_say(process, SAY_PREPARED);
        break;
    case CONTROL_SWITCH:
        switch_to(process, message->plan);
        break;
    case CONTROL_STOP:
        will_say(process, SAY_LEFT | DIE);
        break;
    default:
        break;
    }
}

void worker_process_kill(struct worker_process *process)
{
    will_say(process, DIE);
}

int worker_process_pid(const struct worker_process *process)
{
    return (int)(process->instance & 0x7fff);
}

void worker_process_socket(const struct config *config, const char *job, unsigned slot,
                           char ret_path[CONFIG_TEXT_SIZE])
{
    snprintf(ret_path, CONFIG_TEXT_SIZE, "%.200s/%.63s.%u", config->run_dir, job, slot);
}

/* ---- queries of the benchmark ---- */

unsigned paper_workers_running(uint64_t generation)
{
    unsigned running = 0;

    for (const struct worker_process *process = workers; process; process = process->next)
        running += process->running == generation && !process->lost[0];
    return running;
}

uint64_t paper_workers_newest(void)
{
    uint64_t newest = 0;

    for (const struct worker_process *process = workers; process; process = process->next)
        newest = MAX(newest, process->running);
    return newest;
}

void paper_workers_break(uint64_t generation, const char *victim)
{
    for (struct worker_process *process = workers; process; process = process->next) {
        if (process->running != generation)
            continue;
        snprintf(process->lost, sizeof(process->lost), "%s", victim);
        will_say(process, strcmp(process->node, victim) ? SAY_STUCK : DIE);
    }
}
