#include "daemon/jobs/copying.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timeouts.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_share.h"
#include "daemon/core/checkpoint_entry.h"
#include "daemon/core/daemon.h"
#include "daemon/core/events.h"
#include "daemon/jobs/copying_choice.h"
#include "daemon/jobs/peers.h"
#include "membership/kv/keys.h"

#define LOOK_NS  NS_PER_SECOND
#define POLL_NS  (NS_PER_SECOND / 5)
#define RETRY_NS (30 * NS_PER_SECOND)
#define NICENESS 10

struct copying {
    struct job *job;
    struct loop_timer *timer;
    bool armed;
    uint64_t missing_since_ns; /* 0: nothing is missing */
    uint64_t retry_at_ns;
    struct kv_request *noting;
    /* Members of the thread. Only the thread uses `task` until `done`. */
    pthread_t thread;
    bool running;
    bool done; /* set by the thread, with release */
    atomic_bool stop;
    struct copying_task task;
    struct checkpoint_remote *remote;
    char folder[JOB_CHECKPOINT_DIR_SIZE];
    unsigned copied; /* number of writers' shares that are here now */
    int status;      /* result of the next share */
    struct error error;
};

static uint64_t now_ns(const struct copying *copying)
{
    const struct loop *loop = &copying->job->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void wake_in(struct copying *copying, uint64_t delay_ns)
{
    const struct loop *loop = &copying->job->daemon->loop.loop;

    if (loop->timer_set(loop->context, copying->timer, now_ns(copying) + delay_ns))
        log_error("job %s: a timer failed", copying->job->name);
    else
        copying->armed = true;
}

/* ---- the thread ---- */

static void *run(void *argument)
{
    struct copying *copying = argument;
    const char *why;
    const struct checkpoint_local local = {.io = io_probe(&why),
                                           .folder = copying->folder,
                                           .node = copying->job->daemon->config->node,
                                           .step = copying->task.record.step,
                                           .remote = copying->remote};

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    while (!copying->status && copying->copied < copying->task.writer_count) {
        copying->status =
            checkpoint_copy_share(&local, copying->task.record.manifest_sha256,
                                  copying->task.writers[copying->copied], &copying->error);
        copying->copied += copying->status == 0;
    }
    __atomic_store_n(&copying->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static int start(struct copying *copying)
{
    AUTO_FREE struct checkpoint_remote_node *nodes = NULL;
    struct checkpoint_remote_options options = {.stop = &copying->stop};
    int status = peers_reach(copying->job, &options, &nodes);

    if (!status)
        status = checkpoint_remote_new(&options, &copying->remote, NULL);
    if (status)
        return status;
    snprintf(copying->folder, sizeof(copying->folder), "%s", copying->job->folders.checkpoint_dir);
    copying->copied = 0;
    copying->status = 0;
    copying->done = false;
    atomic_store(&copying->stop, false);
    error_clear(&copying->error);
    status = -pthread_create(&copying->thread, NULL, run, copying);
    copying->running = !status;
    return status;
}

static void join(struct copying *copying)
{
    if (copying->running)
        pthread_join(copying->thread, NULL);
    copying->running = false;
    checkpoint_remote_free(copying->remote);
    copying->remote = NULL;
}

/* ---- noting new copies in the record ---- */

static const struct mirror_entry *find_record(const struct copying *copying,
                                              char ret_key[KV_KEY_MAX])
{
    const struct daemon *daemon = copying->job->daemon;

    return mirror_find(&daemon->keys.mirror,
                       keys_checkpoint(ret_key, daemon->config->cluster, copying->job->name,
                                       copying->task.record.step));
}

/* Encode the current record with this node's copies added; NULL: the record is of another
 * checkpoint by now, or memory is short. */
static char *noted(const struct copying *copying, const struct mirror_entry *entry)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};

    if (!checkpoint_entry_read(entry, &record) ||
        strcmp(record.manifest_sha256, copying->task.record.manifest_sha256) != 0)
        return NULL;
    for (unsigned i = 0; i < copying->copied; i++)
        if (copies_add(&record.shares, copying->task.writers[i], copying->job->daemon->config->node,
                       copying->job->plans.plan))
            log_warning("job %s: the record of step %" PRIu64 " has no room for another copy",
                        copying->job->name, record.step);
    return checkpoint_entry_text(&record);
}

static void on_noted(void *context, const struct kv_result *result)
{
    struct copying *copying = context;

    copying->noting = NULL;
    if (result->status || !result->succeeded)
        wake_in(copying, LOOK_NS); /* the next round finds the copies here */
}

static void note(struct copying *copying)
{
    const struct daemon *daemon = copying->job->daemon;
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry = find_record(copying, key);
    AUTO_FREE char *text = entry ? noted(copying, entry) : NULL;

    if (!text)
        return;
    const struct kv_compare compare = {
        .key = key, .target = KV_MOD_REVISION, .value = entry->mod_revision};
    const struct kv_operation operation = {.type = KV_PUT, .key = key, .value = text};
    if (daemon->keys.kv->txn(daemon->keys.kv->context, &compare, 1, &operation, 1, on_noted,
                             copying, &copying->noting))
        log_error("job %s: no memory to note copies of checkpoints", copying->job->name);
}

static void tell(const struct copying *copying)
{
    const struct job *job = copying->job;
    const struct event_facts facts = {.job = job->name,
                                      .node = job->daemon->config->node,
                                      .step = copying->task.record.step,
                                      .pause_seconds = -1};
    char text[256];

    snprintf(text, sizeof(text),
             "%u missing copies of the checkpoint of step %" PRIu64 " were made again here",
             copying->copied, copying->task.record.step);
    events_append(job->folders.dir, &facts, "checkpoint", text);
}

static void finish(struct copying *copying)
{
    join(copying);
    copying->missing_since_ns = 0;
    if (copying->copied) {
        tell(copying);
        note(copying);
    }
    if (!copying->status)
        return;
    copying->retry_at_ns = now_ns(copying) + RETRY_NS;
    log_warning("job %s: a copy of the checkpoint of step %" PRIu64
                " is missing and could not be made: %s; tried again in %llu s",
                copying->job->name, copying->task.record.step, copying->error.text,
                RETRY_NS / NS_PER_SECOND);
}

/* ---- choosing ---- */

/* Return whether copies have been missing for long enough. */
static bool is_due(struct copying *copying)
{
    const struct job *job = copying->job;
    const struct daemon *daemon = job->daemon;
    uint64_t now = now_ns(copying);

    if (!job->plans.plan ||
        !copying_choose(&daemon->keys.mirror, daemon->config->cluster, job->name, job->plans.plan,
                        job->spec.checkpoint.copies, daemon->config->node, &copying->task)) {
        copying->missing_since_ns = 0;
        return false;
    }
    if (!copying->missing_since_ns)
        copying->missing_since_ns = now;
    return now >= copying->retry_at_ns &&
           now - copying->missing_since_ns >=
               TIMEOUTS_COPIES_MISSING * daemon->config->failure_timeout_ns;
}

static void on_timer(void *context)
{
    struct copying *copying = context;

    copying->armed = false;
    if (copying->running && !__atomic_load_n(&copying->done, __ATOMIC_ACQUIRE)) {
        wake_in(copying, POLL_NS);
        return;
    }
    if (copying->running)
        finish(copying);
    if (copying->noting)
        return;
    bool due = is_due(copying);
    if (due && start(copying)) {
        join(copying);
        copying->retry_at_ns = now_ns(copying) + RETRY_NS;
    }
    if (copying->running)
        wake_in(copying, POLL_NS);
    else if (copying->missing_since_ns)
        wake_in(copying, LOOK_NS);
}

void copying_sync(struct job *job)
{
    if (!job_keeps_copies(&job->spec))
        return;
    if (!job->copying) {
        const struct loop *loop = &job->daemon->loop.loop;
        struct copying *copying = calloc(1, sizeof(*copying));
        if (!copying ||
            loop->timer_add(loop->context, UINT64_MAX, on_timer, copying, &copying->timer)) {
            free(copying);
            return;
        }
        copying->job = job;
        job->copying = copying;
    }
    if (!job->copying->armed)
        wake_in(job->copying, LOOK_NS);
}

void copying_stop(struct job *job)
{
    struct copying *copying = job->copying;

    if (!copying)
        return;
    atomic_store(&copying->stop, true);
    join(copying);
    job->daemon->keys.kv->cancel(job->daemon->keys.kv->context, copying->noting);
    job->daemon->loop.loop.timer_remove(job->daemon->loop.loop.context, copying->timer);
    checkpoint_record_done(&copying->task.record);
    free(copying);
    job->copying = NULL;
}
