#include "daemon/jobs/retention_sweep.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "checkpoint/write/retain.h"
#include "checkpoint/write/writer.h"
#include "daemon/core/checkpoint_entry.h"
#include "daemon/core/daemon.h"
#include "daemon/core/decode_cache.h"
#include "membership/kv/keys.h"

/* The thread and the job own a sweep together: removing hundreds of gigabytes takes long, and the
 * job does not wait for it. */
enum { RETENTION_RUNS, RETENTION_DONE, RETENTION_ABANDONED };

struct retention {
    atomic_int state;
    char folder[JOB_CHECKPOINT_DIR_SIZE];
    uint64_t *steps;
    struct checkpoint_sweep sweep;
    int64_t revision; /* highest revision of the records */
    bool is_ours;     /* this node recorded the newest checkpoint */
};

static void release(struct retention *retention)
{
    if (!retention)
        return;
    free(retention->steps);
    free(retention);
}

/* Leave the sweep to the other owner, or free it if there is none. */
static void leave(struct retention *retention, int state)
{
    int running = RETENTION_RUNS;

    if (!atomic_compare_exchange_strong(&retention->state, &running, state))
        release(retention);
}

static void *run(void *argument)
{
    struct retention *retention = argument;
    struct error error = {0};

    if (checkpoint_sweep(&retention->sweep, &error))
        log_warning("removing old checkpoints: %s", error.text);
    leave(retention, RETENTION_DONE);
    return NULL;
}

/* Copy the records from the mirror. NULL: memory is short, or a record is malformed; then
 * nothing is removed. */
static struct retention *look(const struct job *job)
{
    struct retention *retention = calloc(1, sizeof(*retention));
    const struct checkpoint_record *newest = NULL;
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count;

    keys_job(prefix, job->daemon->config->cluster, job->name, "checkpoints/");
    count = mirror_range(&job->daemon->keys.mirror, prefix, &entries);
    if (retention)
        retention->steps = calloc(count + 1, sizeof(*retention->steps));
    for (size_t i = 0; retention && retention->steps && i < count; i++) {
        const struct checkpoint_record *record =
            decode_cache_checkpoint(&job->daemon->keys.mirror, &entries[i]);
        if (!record) {
            release(retention);
            return NULL;
        }
        retention->steps[retention->sweep.step_count++] = record->step;
        retention->revision = MAX(retention->revision, entries[i].mod_revision);
        if (!newest || checkpoint_entry_follows(record, newest))
            newest = record;
    }
    if (retention && newest) {
        retention->sweep.step = newest->step;
        retention->is_ours = !strcmp(newest->node, job->daemon->config->node);
    }
    return retention;
}

static bool is_news(struct job_expiry *expiry, const struct retention *retention)
{
    bool news = retention->sweep.step_count != expiry->swept_count ||
                retention->revision != expiry->swept_revision ||
                retention->sweep.generation > expiry->swept_generation;

    expiry->swept_generation = retention->sweep.generation;
    expiry->swept_count = retention->sweep.step_count;
    expiry->swept_revision = retention->revision;
    return news;
}

void retention_sweep_sync(struct job *job)
{
    bool own_folder = job_keeps_copies(&job->spec);

    if (!job->plans.plan || !(own_folder || job->plans.plan->layout.worker_count == 0) ||
        (job->expiry.retention && atomic_load(&job->expiry.retention->state) == RETENTION_RUNS))
        return;
    retention_sweep_stop(&job->expiry);
    struct retention *retention = look(job);
    const struct plan *plan = job->plans.plan;
    if (retention)
        retention->sweep.generation = plan->change.planned ? plan->follows : plan->generation;
    if (!retention || !retention->steps || !is_news(&job->expiry, retention) ||
        !(own_folder || retention->is_ours)) {
        release(retention);
        return;
    }
    snprintf(retention->folder, sizeof(retention->folder), "%s", job->folders.checkpoint_dir);
    retention->sweep.folder = retention->folder;
    retention->sweep.steps = retention->steps;
    if (thread_start_detached(run, retention)) {
        release(retention);
        return;
    }
    job->expiry.retention = retention;
}

void retention_sweep_stop(struct job_expiry *expiry)
{
    if (!expiry->retention)
        return;
    leave(expiry->retention, RETENTION_ABANDONED);
    expiry->retention = NULL;
}
