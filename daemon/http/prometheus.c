#include "daemon/http/prometheus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/checkpoint/scrubbing.h"
#include "daemon/core/daemon.h"
#include "daemon/core/outbox.h"
#include "daemon/jobs/fencing.h"
#include "daemon/jobs/job.h"
#include "membership/kv/keys.h"

#define LABELS_SIZE 256

/* Labels are names, states and versions only, so nothing needs escaping. */
struct page {
    struct bytes *body;
    int status; /* first error */
};

/* Value of one metric family for a job or a worker; NaN: none. */
typedef double (*job_value)(const struct job *job);
typedef double (*worker_value)(const struct job *job, unsigned slot);

static void begin_family(struct page *page, const char *name, const char *help)
{
    if (!page->status)
        page->status = bytes_append_format(page->body, "# HELP firn_%s %s\n# TYPE firn_%s gauge\n",
                                           name, help, name);
}

/* @labels: `a="b",c="d"`, may be empty */
static void add_sample(struct page *page, const char *name, const char *labels, double value)
{
    if (!page->status && !isnan(value))
        page->status =
            bytes_append_format(page->body, "firn_%s%s%s%s %.15g\n", name, labels[0] ? "{" : "",
                                labels, labels[0] ? "}" : "", value);
}

static void add_single(struct page *page, const char *name, const char *help, double value)
{
    begin_family(page, name, help);
    add_sample(page, name, "", value);
}

/* ---- the node ---- */

static bool is_busy(const struct job *jobs, unsigned slot)
{
    for (const struct job *job = jobs; job; job = job->next)
        if (job->workers.processes[slot])
            return true;
    return false;
}

static void add_slots(struct page *page, const struct job *jobs, const struct node_record *self)
{
    unsigned free = 0, busy = 0, bad = 0;

    for (unsigned slot = 0; slot < self->slot_count; slot++)
        if (self->slots[slot].bad[0])
            bad++;
        else if (is_busy(jobs, slot))
            busy++;
        else
            free++;
    begin_family(page, "slots", "Slots of this node by state.");
    add_sample(page, "slots", "state=\"free\"", free);
    add_sample(page, "slots", "state=\"busy\"", busy);
    add_sample(page, "slots", "state=\"out_of_service\"", bad);
}

static void add_node(struct page *page, const struct daemon *daemon)
{
    char labels[LABELS_SIZE];

    snprintf(labels, sizeof(labels), "cluster=\"%s\",node=\"%s\",version=\"%s\"",
             daemon->config->cluster, daemon->config->node, FIRN_VERSION);
    begin_family(page, "node_info", "Always 1; the labels identify the node.");
    add_sample(page, "node_info", labels, 1);
    add_single(page, "node_registered", "1: etcd has this node's record.", daemon->node.registered);
    add_single(page, "node_leads", "1: this firnd plans for the cluster.",
               daemon->node.election && election_leads(daemon->node.election));
    add_single(page, "node_draining", "1: its work is to move to other nodes.",
               daemon->node.self.draining);
    add_single(page, "etcd_reachable", "1: etcd answered last time.", !daemon->keys.away);
    add_single(page, "etcd_writable", "0: etcd refused the last write of this node.",
               !outbox_refused(daemon->keys.outbox));
    add_single(page, "loop_longest_turn_seconds",
               "The longest turn of the event loop since the start of firnd.",
               (double)daemon->loop.turns.longest_ns / NS_PER_SECOND);
    add_single(page, "loop_longest_busy_turn_seconds",
               "The longest turn of the event loop in processor time of firnd.",
               (double)daemon->loop.turns.longest_busy_ns / NS_PER_SECOND);
    add_single(page, "loop_slow_turns",
               "Turns of the event loop of 50 ms or more since the start of firnd.",
               (double)daemon->loop.turns.slow_count);
    add_slots(page, daemon->jobs, &daemon->node.self);
}

/* Add the progress of reading checkpoints back (daemon/checkpoint/scrubbing.h). */
static void add_scrubbing(struct page *page, const struct daemon_checkpoints *checkpoints)
{
    if (!checkpoints->scrubbing)
        return;
    const struct scrubbing_progress progress = scrubbing_progress(checkpoints->scrubbing);
    add_single(page, "scrub_bytes", "Bytes of the checkpoint that is being read back; 0: none is.",
               (double)progress.total_bytes);
    add_single(page, "scrub_done_bytes", "Bytes of that checkpoint that have been read.",
               progress.total_bytes ? (double)progress.done_bytes : 0);
    add_single(page, "scrub_verified_checkpoints",
               "Checkpoints that were found good since this firnd was started.",
               (double)progress.verified);
    add_single(page, "scrub_damaged_checkpoints",
               "Checkpoints that were found damaged since this firnd was started.",
               (double)progress.damaged);
}

/* ---- jobs ---- */

/* Return the slot of rank 0 if it is on this node, else -1. */
static int first_slot(const struct job *job)
{
    for (unsigned slot = 0;
         job->plans.plan && job->plans.plan->layout.worker_count && slot < REPORT_WORKERS_MAX;
         slot++)
        if (job->workers.progress[slot].step &&
            plan_layout_find(&job->plans.plan->layout, job->daemon->config->node, slot) == 0)
            return (int)slot;
    return -1;
}

static const struct control_progress *told(const struct job *job)
{
    int slot = first_slot(job);

    return slot >= 0 ? &job->workers.progress[slot] : NULL;
}

static double job_generation(const struct job *job)
{
    return job->plans.plan ? (double)job->plans.plan->generation : NAN;
}

static double job_alarm(const struct job *job)
{
    return slot_alarms_shown(&job->workers.alarms)[0] != '\0';
}

static double job_held(const struct job *job)
{
    return fencing_holds(job);
}

static double job_step(const struct job *job)
{
    return told(job) ? (double)told(job)->step : NAN;
}

static double job_steps(const struct job *job)
{
    return told(job) ? (double)job->spec.train.steps : NAN;
}

static double job_checkpoint(const struct job *job)
{
    return told(job) ? (double)job->record.step : NAN;
}

static double job_loss(const struct job *job)
{
    return told(job) ? told(job)->loss : NAN;
}

static double job_validation(const struct job *job)
{
    return told(job) ? told(job)->validation_loss : NAN;
}

static double job_norm(const struct job *job)
{
    return told(job) ? told(job)->grad_norm : NAN;
}

static double job_frozen(const struct job *job)
{
    return told(job) ? (double)told(job)->frozen_layers : NAN;
}

static double job_tokens(const struct job *job)
{
    return told(job) ? told(job)->tokens_per_second : NAN;
}

static double job_pause(const struct job *job)
{
    return told(job) ? told(job)->pause_seconds : NAN;
}

static double job_slots(const struct job *job)
{
    return told(job) ? (double)job->plans.plan->layout.worker_count : NAN;
}

static const struct {
    const char *name, *help;
    job_value value;
} job_families[] = {
    {"job_generation", "The plan in force, as this node knows it.", job_generation},
    {"job_alarm", "1: a worker of this node raised an alarm (a checkpoint that failed).",
     job_alarm},
    {"job_held", "1: this node is cut off from etcd and lets the job commit nothing here.",
     job_held},
    {"job_step", "The newest committed step.", job_step},
    {"job_steps", "Steps of the whole job.", job_steps},
    {"job_checkpoint_step", "Step of the newest checkpoint that this node recorded.",
     job_checkpoint},
    {"job_loss", "Training loss of the newest step.", job_loss},
    {"job_validation_loss", "The newest validation loss.", job_validation},
    {"job_gradient_norm", "Gradient norm of the newest step, before clipping.", job_norm},
    {"job_frozen_layers", "Layers that are frozen.", job_frozen},
    {"job_tokens_per_second", "Speed of the newest step.", job_tokens},
    {"job_pause_seconds", "Pause of the last change of layout.", job_pause},
    {"job_workers", "Slots that compute it.", job_slots},
};

static void add_jobs(struct page *page, const struct job *jobs)
{
    char labels[LABELS_SIZE];

    for (size_t i = 0; i < ARRAY_COUNT(job_families); i++) {
        begin_family(page, job_families[i].name, job_families[i].help);
        for (const struct job *job = jobs; job; job = job->next) {
            snprintf(labels, sizeof(labels), "job=\"%s\"", job->name);
            add_sample(page, job_families[i].name, labels, job_families[i].value(job));
        }
    }
}

/* Add every job's state; only the leader follows these keys. */
static void add_states(struct page *page, const struct daemon *daemon)
{
    char key[KV_KEY_MAX], job[NAME_SIZE], leaf[128], labels[LABELS_SIZE];
    const struct mirror_entry *entries;
    size_t count;

    begin_family(page, "job_state", "Always 1; the state of each job, told by the leader.");
    if (!daemon->node.election || !election_leads(daemon->node.election))
        return;
    count =
        mirror_range(&daemon->keys.mirror, keys_cluster(key, daemon->config->cluster), &entries);
    for (size_t i = 0; i < count; i++) {
        AUTO_JSON json_t *tree = NULL;
        struct state_record record;
        if (!keys_match_said(entries[i].key, daemon->config->cluster, job, leaf) ||
            strcmp(leaf, "state") != 0 ||
            json_parse(entries[i].value, strlen(entries[i].value), entries[i].key, &tree, NULL) ||
            state_record_decode(tree, &record, NULL) || !name_valid(record.state))
            continue;
        snprintf(labels, sizeof(labels), "job=\"%s\",state=\"%s\"", job, record.state);
        add_sample(page, "job_state", labels, 1);
    }
}

/* ---- workers ---- */

static double worker_step(const struct job *job, unsigned slot)
{
    return (double)MAX(job->workers.progress[slot].step, job->workers.statuses[slot].applied_step);
}

static double worker_compute(const struct job *job, unsigned slot)
{
    return job->workers.progress[slot].step ? job->workers.progress[slot].compute_seconds : NAN;
}

static double worker_wait(const struct job *job, unsigned slot)
{
    return job->workers.progress[slot].step ? job->workers.progress[slot].wait_seconds : NAN;
}

static double worker_seconds(const struct job *job, unsigned slot)
{
    return job->workers.progress[slot].step ? job->workers.progress[slot].step_seconds : NAN;
}

static double worker_memory(const struct job *job, unsigned slot)
{
    return job->workers.progress[slot].memory_bytes
               ? (double)job->workers.progress[slot].memory_bytes
               : NAN;
}

static const struct {
    const char *name, *help;
    worker_value value;
} worker_families[] = {
    {"worker_step", "The newest step that it has applied.", worker_step},
    {"worker_step_seconds", "Duration of the newest step.", worker_seconds},
    {"worker_compute_seconds", "Part of the newest step in which the worker computed.",
     worker_compute},
    {"worker_wait_seconds", "Part of the newest step in which the worker waited for others.",
     worker_wait},
    {"worker_memory_bytes", "The most that its generation took, without training data.",
     worker_memory},
};

static void add_workers(struct page *page, const struct job *jobs)
{
    char labels[LABELS_SIZE];

    for (size_t i = 0; i < ARRAY_COUNT(worker_families); i++) {
        begin_family(page, worker_families[i].name, worker_families[i].help);
        for (const struct job *job = jobs; job; job = job->next)
            for (unsigned slot = 0; slot < REPORT_WORKERS_MAX; slot++) {
                if (!job->workers.processes[slot])
                    continue;
                snprintf(labels, sizeof(labels), "job=\"%s\",slot=\"%u\"", job->name, slot);
                add_sample(page, worker_families[i].name, labels,
                           worker_families[i].value(job, slot));
            }
    }
}

int prometheus_append(const struct daemon *daemon, struct bytes *body)
{
    struct page page = {.body = body};

    add_node(&page, daemon);
    add_scrubbing(&page, &daemon->checkpoints);
    add_jobs(&page, daemon->jobs);
    add_states(&page, daemon);
    add_workers(&page, daemon->jobs);
    return page.status;
}
