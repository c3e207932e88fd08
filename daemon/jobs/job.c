#include "daemon/jobs/job.h"
#include "daemon/jobs/earlier_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/config/job_dir.h"
#include "daemon/core/daemon.h"
#include "daemon/core/decode_cache.h"
#include "daemon/core/events.h"
#include "daemon/core/view.h"
#include "daemon/jobs/checkpoint_record.h"
#include "daemon/jobs/copying.h"
#include "daemon/jobs/fencing.h"
#include "daemon/jobs/frozen_folder.h"
#include "daemon/jobs/job_folder.h"
#include "daemon/jobs/job_progress.h"
#include "daemon/jobs/mark_look.h"
#include "daemon/jobs/retention_rule.h"
#include "daemon/jobs/retention_sweep.h"
#include "daemon/jobs/slot_service.h"
#include "daemon/jobs/suspicion.h"
#include "elastic/job/job_spec.h"
#include "elastic/plan/versions.h"
#include "membership/kv/keys.h"

#define PROGRESS_NS NS_PER_SECOND

static void feed(struct job *job, struct agent_event *event);

static struct event_facts facts_of(const struct job *job, uint64_t generation, uint64_t step)
{
    return (struct event_facts){
        .job = job->name,
        .node = job->daemon->config->node,
        .generation = generation,
        .step = step,
        .pause_seconds = -1,
    };
}

/* ---- messages of workers ---- */

static void on_connected(void *context, const char *name, unsigned slot)
{
    struct job *job = context;
    struct agent_event event = {.type = AGENT_WORKER_UP, .slot = slot};

    (void)name;
    feed(job, &event);
    fencing_connected(job, slot);
}

/* A worker that lost a link names its peer as "node/slot". */
static void suspect(struct job *job, const struct worker_report *status)
{
    for (unsigned i = 0; i < status->lost_count; i++) {
        char node[NAME_SIZE];
        snprintf(node, sizeof(node), "%.*s", (int)strcspn(status->lost[i], "/"), status->lost[i]);
        if (strcmp(node, job->daemon->config->node))
            suspicion_raise(job->daemon->suspicion, node);
    }
}

/* All workers report the divergence of the same step: log the first one of this node only. */
static bool divergence_is_told(const struct job_workers *workers)
{
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
        if (workers->statuses[slot].cause == CAUSE_DIVERGED)
            return true;
    return false;
}

/* Log and record the status of a worker that does not go on. In a cancelled job, the workers that
 * stop first break the links of the others, which is no failure. */
static void tell_status(struct job *job, unsigned slot, const struct worker_report *status)
{
    struct event_facts facts = facts_of(job, status->generation, status->applied_step);
    bool stuck = status->phase == WORKER_STUCK;
    char text[REPORT_TEXT_SIZE + 64];

    if ((!stuck && status->phase != WORKER_REFUSED) || status->cause == CAUSE_LEFT_OUT)
        return;
    if (stuck &&
        view_job_cancelled(&job->daemon->keys.mirror, job->daemon->config->cluster, job->name))
        return;
    if (status->cause == CAUSE_DIVERGED) {
        events_append(job->folders.dir, &facts, "diverged", status->text);
        return;
    }
    snprintf(text, sizeof(text), "slot %u %s: %s", slot, stuck ? "is stuck" : "takes no part",
             status->text);
    events_append(job->folders.dir, &facts, stuck ? "stuck" : "refused", text);
}

static void on_status(struct job *job, unsigned slot, const struct worker_report *status)
{
    struct agent_event event = {.type = AGENT_WORKER_STATUS, .slot = slot, .status = status};
    bool diverged = status->cause == CAUSE_DIVERGED;
    bool new_root = status->root && status->generation != job->workers.statuses[slot].generation;
    bool again = diverged ? divergence_is_told(&job->workers)
                          : status->phase == WORKER_REFUSED &&
                                job->workers.statuses[slot].phase == WORKER_REFUSED;

    job->workers.statuses[slot] = *status;
    if (!again)
        tell_status(job, slot, status);
    if (diverged) /* no later step will report it, and all ranks report the same step */
        job_progress_write(job, slot);
    if (status->phase == WORKER_STUCK)
        suspect(job, status);
    feed(job, &event);
    if (new_root)
        fencing_look(job->daemon->fencing);
}

static void on_progress(struct job *job, unsigned slot, const struct control_progress *progress)
{
    const struct control_progress before = job->workers.progress[slot];

    job->workers.progress[slot] = *progress;
    /* Measured only now and then: keep the newest value. There is none before the first progress of
     * a worker that an earlier firnd started. */
    if (isnan(progress->validation_loss) && before.generation)
        job->workers.progress[slot].validation_loss = before.validation_loss;
    if (job_progress_is_of_root(job, slot) &&
        (clock_monotonic_ns() - job->workers.progress_written_ns >= PROGRESS_NS ||
         progress->generation != job->plans.plan->generation || /* its last step */
         progress->frozen_layers != before.frozen_layers || /* another layout may be better now */
         progress->step == job->spec.train.steps))
        job_progress_write(job, slot);
}

static void on_alarm(struct job *job, unsigned slot, const char *text)
{
    struct event_facts facts =
        facts_of(job, job->workers.statuses[slot].generation, job->workers.progress[slot].step);

    char event[RECORD_TEXT_SIZE];

    if (!slot_alarms_set(&job->workers.alarms, slot, text, event))
        return;
    events_append(job->folders.dir, &facts, "alarm", event);
    if (job_progress_is_of_root(job, slot) &&
        job->workers.progress[slot].step) /* maybe the last step */
        job_progress_write(job, slot);
}

static void on_event(struct job *job, const struct control_message *message)
{
    struct event_facts facts = facts_of(job, message->progress.generation, message->progress.step);

    if (message->progress.pause_seconds > 0)
        facts.pause_seconds = message->progress.pause_seconds;
    events_append(job->folders.dir, &facts, "training", message->text);
}

/* Stop a worker whose protocol this firnd no longer speaks after an upgrade; it counts as dead. */
static void turn_away(struct job *job, unsigned slot, unsigned protocol)
{
    struct event_facts facts = facts_of(job, 0, 0);
    char text[REPORT_TEXT_SIZE];

    if (job->workers.killed[slot] || !job->workers.processes[slot])
        return;
    snprintf(text, sizeof(text),
             "the worker on slot %u speaks control protocol %u, this firnd %u to %u; killing it",
             slot, protocol, VERSIONS_CONTROL_OLDEST, VERSIONS_CONTROL);
    events_append(job->folders.dir, &facts, "worker", text);
    log_warning("job %s: %s", job->name, text);
    job->workers.killed[slot] = true;
    worker_process_kill(job->workers.processes[slot]);
}

static void on_message(void *context, const char *name, unsigned slot,
                       struct control_message *message)
{
    struct job *job = context;

    (void)name;
    switch (message->type) {
    case CONTROL_STATUS:
        if (versions_meet(message->protocol_oldest, message->protocol))
            on_status(job, slot, &message->status);
        else
            turn_away(job, slot, message->protocol);
        break;
    case CONTROL_PROGRESS:
        on_progress(job, slot, &message->progress);
        break;
    case CONTROL_EVENT:
        on_event(job, message);
        break;
    case CONTROL_ALARM:
        on_alarm(job, slot, message->text);
        break;
    case CONTROL_CHECKPOINT:
        checkpoint_record_begin(job, slot, &message->checkpoint);
        break;
    default:
        log_warning("job %s, slot %u: the worker sent a command, which only firnd may send",
                    job->name, slot);
    }
}

static struct agent_event exit_event(const struct job *job, unsigned slot, int exit_code,
                                     const char *text)
{
    struct agent_event event = {.type = AGENT_WORKER_EXIT, .slot = slot, .exit_code = exit_code};

    event.on_probation = slot_service_watches(job->daemon->node.slot_service, slot);
    snprintf(event.text, sizeof(event.text), "%s", text);
    return event;
}

static void on_exited(void *context, const char *name, unsigned slot, int exit_code,
                      const char *words)
{
    struct job *job = context;
    struct event_facts facts = facts_of(job, job->workers.statuses[slot].generation,
                                        job->workers.statuses[slot].applied_step);
    char text[REPORT_TEXT_SIZE];

    (void)name;
    if (exit_code < 0)
        snprintf(text, sizeof(text), "killed by signal %d (%s)", -exit_code, strsignal(-exit_code));
    else
        snprintf(text, sizeof(text), "exit code %d: %.200s", exit_code, words);
    struct agent_event event = exit_event(job, slot, exit_code, text);
    bool told = job->workers.statuses[slot].phase == WORKER_REFUSED ||
                job->workers.statuses[slot].phase == WORKER_BAD;
    if (exit_code && !job->workers.killed[slot] && !told) {
        char line[REPORT_TEXT_SIZE + 64];
        snprintf(line, sizeof(line), "the worker on slot %u ended: %s", slot, text);
        events_append(job->folders.dir, &facts, "worker", line);
    }
    job->workers.processes[slot] = NULL;
    on_alarm(job, slot, ""); /* its successor reports its own alarms */
    if (job->record.slot == slot)
        checkpoint_record_forget(job);
    feed(job, &event);
    daemon_wake(job->daemon);
}

static const struct worker_process_callbacks process_callbacks = {
    .connected = on_connected,
    .message = on_message,
    .exited = on_exited,
};

/* ---- actions of the agent ---- */

static struct worker_process_options process_options(struct job *job, unsigned slot)
{
    return (struct worker_process_options){
        .event = job->daemon->loop.event,
        .config = job->daemon->config,
        .callbacks = &process_callbacks,
        .context = job,
        .job = job->name,
        .spec_path = job->folders.spec_path,
        .job_dir = job->folders.dir,
        .checkpoint_dir = job->folders.checkpoint_dir,
        .slot = slot,
        .device = job->daemon->node.self.slots[slot].device,
    };
}

static void spawn(struct job *job, unsigned slot)
{
    const struct worker_process_options options = process_options(job, slot);
    struct error error = {0};

    if (slot >= job->daemon->node.self.slot_count || job->workers.processes[slot]) {
        log_error("job %s: slot %u cannot start a worker: %s", job->name, slot,
                  job->workers.processes[slot] ? "one is running there"
                                               : "this node has no such slot");
        return;
    }
    for (struct job *other = job->daemon->jobs; other; other = other->next)
        if (other != job && other->workers.processes[slot]) {
            struct agent_event event = {.type = AGENT_SLOT_WANTED, .slot = slot};
            feed(other, &event);
        }
    memset(&job->workers.statuses[slot], 0, sizeof(job->workers.statuses[slot]));
    job->workers.killed[slot] = false;
    job->workers.progress[slot] =
        (struct control_progress){.validation_loss = NAN, .loss = NAN, .grad_norm = NAN};
    if (worker_process_spawn(&options, &job->workers.processes[slot], &error)) {
        log_error("job %s: %s", job->name, error.text);
        snprintf(job->workers.unstarted_text, sizeof(job->workers.unstarted_text), "%.*s",
                 (int)sizeof(job->workers.unstarted_text) - 1, error.text);
        job->workers.unstarted |= (uint64_t)1 << slot;
    }
}

static void send_order(struct job_workers *workers, const struct agent_action *action,
                       enum control_type type)
{
    AUTO_FREE struct control_message *message = calloc(1, sizeof(*message));

    if (!message || !workers->processes[action->slot])
        return;
    message->type = type;
    message->plan = (struct plan *)(uintptr_t)action->plan; /* read only */
    worker_process_send(workers->processes[action->slot], message);
}

static void write_report(struct job *job, const struct node_report *report)
{
    struct daemon *daemon = job->daemon;
    char key[KV_KEY_MAX];
    AUTO_JSON json_t *tree = node_report_encode(report);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    if (!text || outbox_put(daemon->keys.outbox,
                            keys_report(key, daemon->config->cluster, job->name, report->generation,
                                        daemon->config->node),
                            text))
        log_error("job %s: no memory for a report", job->name);
}

static void take_slot_out(struct job *job, unsigned slot, const char *why, bool crashed)
{
    struct event_facts facts = facts_of(job, 0, 0);
    char text[REPORT_TEXT_SIZE + 96];
    uint64_t pause_ns = slot_service_take_out(job->daemon->node.slot_service, slot, why, crashed);

    if (pause_ns)
        snprintf(text, sizeof(text), "slot %u is taken out of service for %.3g min: %s", slot,
                 (double)pause_ns / (60.0 * NS_PER_SECOND), why);
    else
        snprintf(text, sizeof(text),
                 "slot %u is taken out of service until firnctl node resume %s: %s", slot,
                 job->daemon->config->node, why);
    events_append(job->folders.dir, &facts, "slot", text);
}

static void carry_out(struct job *job, const struct agent_action *action)
{
    switch (action->type) {
    case AGENT_SPAWN:
        spawn(job, action->slot);
        break;
    case AGENT_SEND_PREPARE:
        send_order(&job->workers, action, CONTROL_PREPARE);
        break;
    case AGENT_SEND_SWITCH:
        send_order(&job->workers, action, CONTROL_SWITCH);
        break;
    case AGENT_SEND_STOP:
        send_order(&job->workers, action, CONTROL_STOP);
        break;
    case AGENT_KILL:
        if (job->workers.processes[action->slot]) {
            job->workers.killed[action->slot] = true;
            worker_process_kill(job->workers.processes[action->slot]);
        }
        break;
    case AGENT_REPORT:
        write_report(job, agent_last_report(job->workers.agent));
        break;
    case AGENT_SLOT_BAD:
        take_slot_out(job, action->slot, action->text, action->crashed);
        break;
    }
}

/* Allocates nothing: an event must not be lost. */
static void step_agent(struct job *job, struct agent_event *event)
{
    const struct loop *loop = &job->daemon->loop.loop;

    event->now_ns = loop->now_ns(loop->context);
    agent_step(job->workers.agent, event, job->workers.actions);
    for (unsigned i = 0; i < job->workers.actions->count; i++)
        carry_out(job, &job->workers.actions->list[i]);
    if (loop->timer_set(loop->context, job->tick, job->workers.actions->wake_at_ns))
        log_error("job %s: its timer failed", job->name);
}

/* Report each worker that could not be started as exited. The agent can take that event only
 * when all its other actions are done. */
static void tell_unstarted(struct job *job)
{
    while (job->workers.unstarted) {
        unsigned slot = (unsigned)__builtin_ctzll(job->workers.unstarted);
        struct agent_event event = exit_event(job, slot, 1, job->workers.unstarted_text);
        job->workers.unstarted &= ~((uint64_t)1 << slot);
        step_agent(job, &event);
    }
}

/* Free the agent and the statuses, which take a hundred times the rest of a job's memory: etcd
 * keeps finished jobs for days. A job without a part on this node needs neither until a plan names
 * the node. A plan that ends the job names it too, and waits for this node's report. */
static void lull(struct job_workers *workers)
{
    agent_free(workers->agent);
    workers->agent = NULL;
    free(workers->actions);
    workers->actions = NULL;
    free(workers->statuses);
    workers->statuses = NULL;
}

static bool rouse(struct job *job)
{
    const struct config *config = job->daemon->config;
    const struct node_record *self = &job->daemon->node.self;
    struct agent_event plan = {.type = AGENT_PLAN, .plan = job->plans.plan};
    struct agent_event next = {.type = AGENT_NEXT, .plan = job->plans.prepared};

    if (job->workers.agent)
        return true;
    job->workers.statuses = calloc(REPORT_WORKERS_MAX, sizeof(*job->workers.statuses));
    job->workers.actions = calloc(1, sizeof(*job->workers.actions));
    if (job->workers.statuses && job->workers.actions)
        job->workers.agent = agent_new(job->name, config->node, self->incarnation, self->links,
                                       config->failure_timeout_ns);
    if (!job->workers.agent) {
        lull(&job->workers);
        return false;
    }
    if (job->plans.plan)
        step_agent(job, &plan);
    if (job->plans.prepared)
        step_agent(job, &next);
    return true;
}

static void rest(struct job *job)
{
    const struct loop *loop = &job->daemon->loop.loop;

    if (!job->workers.agent || !job_idle(&job->workers) || !agent_rests(job->workers.agent) ||
        loop->timer_set(loop->context, job->tick, UINT64_MAX))
        return;
    lull(&job->workers);
    job->fence.lone = (struct job_lone_root){0};
}

/* Retry when memory for an agent was short. No event is lost: the agent starts from the plans, in
 * which this node has had no part yet. */
static void look_again(struct job *job)
{
    const struct loop *loop = &job->daemon->loop.loop;

    log_error("job %s: no memory to handle an event; retrying soon", job->name);
    if (loop->timer_set(loop->context, job->tick, loop->now_ns(loop->context) + NS_PER_SECOND / 10))
        log_error("a timer failed");
}

static void feed(struct job *job, struct agent_event *event)
{
    if (!rouse(job)) {
        look_again(job);
        return;
    }
    step_agent(job, event);
    tell_unstarted(job);
}

static void on_tick(void *context)
{
    struct agent_event event = {.type = AGENT_TICK};

    feed(context, &event);
}

/* ---- plans ---- */

static struct plan *decode_plan(struct job *job, const struct mirror_entry *entry)
{
    struct error error = {0};
    struct plan *plan = NULL;

    int status = decode_cache_plan(&job->daemon->keys.mirror, entry, &plan, &error);
    if (status && entry->mod_revision != job->plans.unread_revision)
        log_error("job %s: cannot decode the plan at %s: %s", job->name, entry->key, error.text);
    if (status)
        job->plans.unread_revision = entry->mod_revision;
    return plan;
}

/* Remember the generation that a planned switch follows. This need not be the generation of @old,
 * which may never have started. */
static void remember_before(struct job_plan_before *before, const struct plan *old,
                            const struct plan *plan)
{
    if (!plan->change.planned) {
        *before = (struct job_plan_before){0};
    } else if (plan->follows == old->generation) {
        *before = (struct job_plan_before){.generation = old->generation,
                                           .stages = old->layout.stage_count,
                                           .replicas = old->layout.replica_count,
                                           .workers = old->layout.worker_count};
        memcpy(before->key, old->links.key, sizeof(before->key));
    }
}

static void sync_plan(struct job *job, const char *leaf, enum agent_event_type type,
                      struct plan **plan, int64_t *revision)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry = mirror_find(
        &job->daemon->keys.mirror, keys_job(key, job->daemon->config->cluster, job->name, leaf));
    int64_t now = entry ? entry->mod_revision : 0;

    if (now == *revision)
        return;
    struct plan *decoded = entry ? decode_plan(job, entry) : NULL;
    if (entry && !decoded)
        return;
    struct plan *old = *plan;
    if (type == AGENT_PLAN && decoded && old && decoded->generation != old->generation)
        remember_before(&job->plans.before, old, decoded);
    *plan = decoded;
    *revision = now;
    struct agent_event event = {.type = type, .plan = decoded};
    if (job->workers.agent ||
        (decoded && plan_layout_find_node(&decoded->layout, job->daemon->config->node) >= 0))
        feed(job, &event);
    plan_free(old);
}

/* Remove outputs of frozen layers once, when the job is over and has no worker here. */
static void remove_outputs(struct job *job)
{
    const struct daemon *daemon = job->daemon;
    bool over = job_idle(&job->workers) &&
                view_job_rests(&daemon->keys.mirror, daemon->config->cluster, job->name);

    if (over && !job->is_over)
        frozen_folder_remove(job->folders.dir);
    job->is_over = over;
}

void job_sync(struct job *job)
{
    sync_plan(job, "generation", AGENT_PLAN, &job->plans.plan, &job->plans.revision);
    sync_plan(job, "next", AGENT_NEXT, &job->plans.prepared, &job->plans.prepared_revision);
    checkpoint_record_sync(job);
    retention_rule_sync(job);
    retention_sweep_sync(job);
    copying_sync(job);
    remove_outputs(job);
    rest(job);
}

void job_slot_mended(struct job *job, unsigned slot)
{
    struct agent_event event = {.type = AGENT_SLOT_MENDED, .slot = slot};

    if (job->workers.agent)
        feed(job, &event);
}

void job_gone(struct job *job)
{
    struct agent_event event = {.type = AGENT_PLAN};

    /* A job that was removed in the usual way has ended before; this one still trains. */
    if (!job->gone && !job_idle(&job->workers))
        log_error(
            "etcd no longer has job %s, so its workers here end. If etcd lost its data, continue "
            "from the newest checkpoint: firnctl job submit FILE --from %s",
            job->name, job->folders.checkpoint_dir);
    job->gone = true;
    if (job->workers.agent)
        feed(job, &event);
}

bool job_idle(const struct job_workers *workers)
{
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
        if (workers->processes[slot])
            return false;
    return true;
}

/* ---- start and end ---- */

static void on_record_retry(void *context)
{
    checkpoint_record_sync(context);
}

static bool has_text(const char *path, const char *text)
{
    CLEANUP(bytes_done) struct bytes there = {0};
    size_t length = strlen(text);

    return !file_read(path, length + 1, &there, NULL) && there.size_bytes == length &&
           memcmp(there.data, text, length) == 0;
}

/* Open the folder and write the specification into it. Do not rewrite an unchanged file: a firnd
 * that starts on a full disk must still reach its workers. */
static int write_spec(struct job *job, bool *ret_was_its, struct error *error)
{
    AUTO_JSON json_t *tree = job_spec_encode(&job->spec);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    int status = job_folder_open(job->folders.dir, job->created, ret_was_its, error);

    if (status)
        return status;
    if (!text)
        return error_set(error, -ENOMEM, "no memory for the specification of job %s", job->name);
    return has_text(job->folders.spec_path, text)
               ? 0
               : file_replace(job->folders.spec_path, text, strlen(text), 0644, error);
}

/* Return whether an operator excused this node's slots later than @report, perhaps while no
 * firnd was running. */
static bool is_excused(const struct config *config, const struct mirror *mirror,
                       const struct mirror_entry *report)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *excused =
        mirror_find(mirror, keys_excused(key, config->cluster, config->node));

    return excused && excused->mod_revision > report->mod_revision;
}

/* Feed the agent the report that an earlier firnd of this node wrote for the plan in force: the
 * agent must not start a worker twice. */
static int tell_reported(struct job *job, struct error *error)
{
    struct daemon *daemon = job->daemon;
    const struct mirror_entry *written = earlier_report_find(daemon, job->name);
    AUTO_JSON json_t *tree = NULL;
    struct error why = {0};

    if (!written)
        return 0;
    AUTO_FREE struct node_report *report = calloc(1, sizeof(*report)); /* over 1 MiB */
    struct agent_event event = {.type = AGENT_REPORTED,
                                .report = report,
                                .excused =
                                    is_excused(daemon->config, &daemon->keys.mirror, written)};
    if (!report)
        return error_set(error, -ENOMEM, "no memory for what this node has said of job %s",
                         job->name);
    if (json_parse(written->value, strlen(written->value), written->key, &tree, &why) ||
        node_report_decode(tree, report, &why))
        log_warning("job %s: %s", job->name, why.text);
    else
        feed(job, &event);
    return 0;
}

static void adopt_workers(struct job *job)
{
    for (unsigned slot = 0; slot < job->daemon->node.self.slot_count; slot++) {
        const struct worker_process_options options = process_options(job, slot);
        struct error error = {0};
        int status = worker_process_adopt(&options, &job->workers.processes[slot], &error);
        if (status) {
            if (status != -ENOENT && status != -ECONNREFUSED) /* these two: no worker there */
                log_warning("job %s: %s", job->name, error.text);
            continue;
        }
        log_info("job %s: took over the running worker %d on slot %u", job->name,
                 worker_process_pid(job->workers.processes[slot]), slot);
        on_connected(job, job->name, slot);
    }
}

/* End workers of an earlier job of this name, which was removed while no firnd was running. */
static void end_strangers(struct job *job)
{
    for (unsigned slot = 0; slot < job->daemon->node.self.slot_count; slot++) {
        const struct worker_process_options options = process_options(job, slot);
        struct worker_process *process = NULL;
        struct error error = {0};
        if (worker_process_adopt(&options, &process, &error))
            continue; /* no worker, or the process is not firn's */
        log_warning("job %s: killing worker %d on slot %u, which belongs to an earlier, removed "
                    "job of this name",
                    job->name, worker_process_pid(process), slot);
        worker_process_kill(process);
        worker_process_free(process);
    }
}

/* Leave the id empty if it is absent (an earlier firnctl) or malformed (it must not become part of
 * a path). */
static void read_submission(struct job *job)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry =
        mirror_find(&job->daemon->keys.mirror,
                    keys_job(key, job->daemon->config->cluster, job->name, "submission"));
    struct submission_record record;
    AUTO_JSON json_t *tree = NULL;
    struct error error = {0};

    if (!entry)
        return;
    if (json_parse(entry->value, strlen(entry->value), entry->key, &tree, &error) ||
        submission_record_decode(tree, &record, &error))
        log_error("job %s: %s: %s", job->name, entry->key, error.text);
    else
        memcpy(job->submission, record.id, sizeof(job->submission));
}

/* Derive the folder's name from the submission. Every node derives the same name, and no other
 * submission does, so the disk, which may be away, need not be read. */
static void choose_checkpoint_dir(struct job *job)
{
    const char *base = job->spec.checkpoint.path[0] ? job->spec.checkpoint.path
                                                    : job->daemon->config->checkpoint_dir;

    read_submission(job);
    snprintf(job->folders.checkpoint_name, sizeof(job->folders.checkpoint_name), "%s%s%s",
             job->name, job->submission[0] ? "." : "", job->submission);
    snprintf(job->folders.checkpoint_dir, sizeof(job->folders.checkpoint_dir), "%s/%s", base,
             job->folders.checkpoint_name);
}

int job_open(struct daemon *daemon, const char *name, const struct job_spec *spec, int64_t created,
             struct job **ret_job, struct error *error)
{
    struct job *job = calloc(1, sizeof(*job));
    bool was_its = false;
    int status;

    if (!job)
        return error_set(error, -ENOMEM, "no memory for job %s", name);
    job->daemon = daemon;
    job->spec = *spec;
    job->created = created;
    snprintf(job->name, sizeof(job->name), "%s", name);
    job_dir_format(daemon->config, name, job->folders.dir);
    snprintf(job->folders.spec_path, sizeof(job->folders.spec_path), "%.*s/spec.json",
             CONFIG_TEXT_SIZE - 16, job->folders.dir);
    choose_checkpoint_dir(job);
    job->expiry.marks = mark_look_new(job);
    status = job->expiry.marks && rouse(job)
                 ? 0
                 : error_set(error, -ENOMEM, "no memory for job %s", name);
    if (!status)
        status = daemon->loop.loop.timer_add(&daemon->loop, UINT64_MAX, on_tick, job, &job->tick);
    if (!status)
        status = daemon->loop.loop.timer_add(&daemon->loop, UINT64_MAX, on_record_retry, job,
                                             &job->record.retry);
    if (!status)
        status = write_spec(job, &was_its, error);
    if (!status)
        status = tell_reported(job, error);
    if (status) {
        job_close(job);
        return status;
    }
    if (was_its)
        adopt_workers(job);
    else
        end_strangers(job);
    *ret_job = job;
    return 0;
}

void job_close(struct job *job)
{
    if (!job)
        return;
    checkpoint_record_forget(job);
    fencing_forget(job->daemon->fencing, job);
    retention_rule_stop(job);
    retention_sweep_stop(&job->expiry);
    mark_look_free(job->expiry.marks);
    copying_stop(job);
    for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++)
        worker_process_free(job->workers.processes[slot]);
    job->daemon->loop.loop.timer_remove(&job->daemon->loop, job->tick);
    job->daemon->loop.loop.timer_remove(&job->daemon->loop, job->record.retry);
    lull(&job->workers);
    plan_free(job->plans.plan);
    plan_free(job->plans.prepared);
    free(job);
}
