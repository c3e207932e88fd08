#include "daemon/reconcile.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "daemon/checkpoint/upload.h"
#include "daemon/config/job_dir.h"
#include "daemon/core/daemon.h"
#include "daemon/core/ending.h"
#include "daemon/jobs/earlier_report.h"
#include "daemon/jobs/fencing.h"
#include "daemon/jobs/frozen_folder.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/left_workers.h"
#include "daemon/jobs/slot_service.h"
#include "daemon/leader/leading.h"
#include "elastic/job/job_spec.h"
#include "membership/kv/keys.h"

#define LEFT_LOOK_NS (NS_PER_SECOND / 5)

static void set_draining(struct daemon_node *node, bool draining, uint64_t deadline_unix_ns,
                         const char *why)
{
    if (node->self.draining == draining && node->self.drain_deadline_unix_ns == deadline_unix_ns)
        return;
    node->self.draining = draining;
    node->self.drain_deadline_unix_ns = deadline_unix_ns;
    log_info("this node is %s: %s", draining ? "draining" : "ready again", why);
    if (!draining)
        slot_service_excuse(node->slot_service);
    daemon_node_publish(node);
}

/* Deadline set by an operator, or by a notice that the machine will be reclaimed; 0: none. */
static uint64_t asked_deadline(const struct mirror_entry *entry)
{
    AUTO_JSON json_t *tree = NULL;
    uint64_t deadline_unix_ns = 0;

    if (json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) ||
        !json_has(tree, "deadline_unix_ns") ||
        json_get_u64(tree, "deadline_unix_ns", INT64_MAX, &deadline_unix_ns, NULL))
        return 0;
    return deadline_unix_ns;
}

/* Return the earlier of the two deadlines. */
static uint64_t drain_deadline(const struct daemon_ending *ending, const struct mirror_entry *entry)
{
    uint64_t asked = entry ? asked_deadline(entry) : 0;

    if (ending->stopping && (!asked || ending->deadline_unix_ns < asked))
        return ending->deadline_unix_ns;
    return asked;
}

static void sync_drain(struct daemon *daemon)
{
    char key[KV_KEY_MAX];
    size_t length = strlen(keys_cluster(key, daemon->config->cluster));

    snprintf(key + length, sizeof(key) - length, "drains/%s", daemon->config->node);
    const struct mirror_entry *wanted = mirror_find(&daemon->keys.mirror, key);
    set_draining(&daemon->node, wanted || daemon->ending.stopping,
                 drain_deadline(&daemon->ending, wanted),
                 daemon->ending.stopping ? "firnd is stopping" : "an operator asked for it");
}

static struct job *find_job(struct job *jobs, const char *name)
{
    for (struct job *job = jobs; job; job = job->next)
        if (!strcmp(job->name, name))
            return job;
    return NULL;
}

static uint64_t now_ns(struct daemon *daemon)
{
    return daemon->loop.loop.now_ns(&daemon->loop);
}

static void open_job(struct daemon *daemon, const char *name, const struct mirror_entry *spec_entry)
{
    AUTO_JSON json_t *tree = NULL;
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    struct error error = {0};
    struct job *job;

    if (!spec ||
        json_parse(spec_entry->value, strlen(spec_entry->value), spec_entry->key, &tree, &error) ||
        job_spec_decode(tree, spec_entry->key, NULL, NULL, spec, &error) ||
        job_open(daemon, name, spec, spec_entry->create_revision, &job, &error)) {
        if (unopened_jobs_note(&daemon->unopened, name, spec_entry->create_revision, error.text,
                               now_ns(daemon)))
            log_error("job %s cannot run on this node: %s", name, error.text);
        return;
    }
    unopened_jobs_forget(&daemon->unopened, name);
    job->next = daemon->jobs;
    daemon->jobs = job;
}

static void open_new_jobs(struct daemon *daemon)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(&daemon->keys.mirror, keys_jobs(prefix, daemon->config->cluster), &entries);

    for (size_t i = 0; i < count; i++) {
        char name[NAME_SIZE], leaf[128];
        if (keys_match_job(entries[i].key, daemon->config->cluster, name, leaf) &&
            !strcmp(leaf, "spec") && !find_job(daemon->jobs, name) &&
            !unopened_jobs_rests(&daemon->unopened, name, entries[i].create_revision,
                                 now_ns(daemon)) &&
            earlier_report_known(daemon->earlier, name))
            open_job(daemon, name, &entries[i]);
    }
    timer_set_at(&daemon->reopen, unopened_jobs_next_ns(&daemon->unopened, now_ns(daemon)));
}

static bool is_known(void *context, const char *job)
{
    const struct daemon *daemon = context;
    char key[KV_KEY_MAX];

    return strlen(job) < NAME_SIZE &&
           mirror_find(&daemon->keys.mirror, keys_job(key, daemon->config->cluster, job, "spec"));
}

/* Remove outputs of jobs that etcd no longer has: once, when this firnd knows all jobs. */
static void sweep(struct daemon *daemon)
{
    char jobs_dir[CONFIG_TEXT_SIZE];

    if (daemon->swept)
        return;
    daemon->swept = true;
    job_dir_format(daemon->config, "", jobs_dir);
    frozen_folder_sweep(jobs_dir, is_known, daemon);
}

/* Compare the revision too: another job of the same name may have been submitted since. */
static bool is_there(const struct daemon *daemon, const struct job *job)
{
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry = mirror_find(
        &daemon->keys.mirror, keys_job(key, daemon->config->cluster, job->name, "spec"));

    return entry && entry->create_revision == job->created;
}

static void close_gone_jobs(struct daemon *daemon)
{
    struct job **link = &daemon->jobs;

    while (*link) {
        struct job *job = *link;
        if (!is_there(daemon, job)) {
            job_gone(job);
            if (job_idle(&job->workers)) {
                *link = job->next;
                frozen_folder_remove(job->folders.dir);
                job_close(job);
                continue;
            }
        }
        link = &job->next;
    }
}

static void sync_jobs(struct daemon *daemon)
{
    for (struct job *job = daemon->jobs; job; job = job->next)
        if (is_there(daemon, job))
            job_sync(job);
}

/* Return whether workers of unopened jobs are left: jobs not opened yet, or that cannot be. */
static bool awaits_left_workers(struct daemon *daemon)
{
    unsigned count = left_workers_count(daemon->config);

    if (count && !daemon->ending.told)
        log_info("stopping: waiting for %u %s of %s that this firnd has not opened", count,
                 count == 1 ? "worker" : "workers", count == 1 ? "a job" : "jobs");
    daemon->ending.told = daemon->ending.told || count;
    if (count) /* they are not this process's children, so no event reports their exit */
        timer_set_in(&daemon->reopen, LEFT_LOOK_NS);
    return count > 0;
}

static void finish_stopping(struct daemon *daemon)
{
    for (const struct job *job = daemon->jobs; job; job = job->next)
        if (!job_idle(&job->workers))
            return;
    if (awaits_left_workers(daemon))
        return;
    if (daemon->node.registry)
        log_info("handover complete; exiting");
    ending_say_goodbye(daemon, EXIT_SUCCESS);
}

static int on_reconcile(sd_event_source *source, void *context)
{
    struct daemon *daemon = context;

    (void)source;
    if (daemon->keys.mirror.revision == 0)
        return 0;
    sync_drain(daemon);
    slot_service_sync(daemon->node.slot_service);
    close_gone_jobs(daemon);
    open_new_jobs(daemon);
    sweep(daemon);
    sync_jobs(daemon);
    fencing_look(daemon->fencing);
    leading_run(daemon->leading);
    upload_sync(daemon->checkpoints.upload);
    if (daemon->ending.stopping)
        finish_stopping(daemon);
    return 0;
}

static void on_reopen(void *context)
{
    daemon_wake(context);
}

int reconcile_init(struct daemon *daemon)
{
    int status = timer_init(&daemon->reopen, &daemon->loop.loop, on_reopen, daemon);

    if (status)
        return status;
    status = sd_event_add_defer(daemon->loop.event, &daemon->reconcile, on_reconcile, daemon);

    if (status >= 0)
        status = sd_event_source_set_enabled(daemon->reconcile, SD_EVENT_OFF);
    return status < 0 ? status : 0;
}

void reconcile_done(struct daemon *daemon)
{
    daemon->reconcile = sd_event_source_disable_unref(daemon->reconcile);
    timer_done(&daemon->reopen);
    unopened_jobs_done(&daemon->unopened);
}
