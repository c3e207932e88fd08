#include "daemon/jobs/retention.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/write/retain.h"
#include "checkpoint/write/writer.h"
#include "daemon/core/daemon.h"
#include "membership/kv/keys.h"

struct sweeping {
    pthread_t thread;
    bool done; /* set by the thread, with release */
    char folder[JOB_CHECKPOINT_DIR_SIZE];
    uint64_t *steps;
    struct checkpoint_sweep sweep;
    uint64_t written_ns; /* time of the newest record */
    int64_t revision;    /* highest revision of the records */
    bool is_ours;        /* this node recorded the newest checkpoint */
};

static void *run(void *argument)
{
    struct sweeping *sweeping = argument;
    struct error error = {0};

    if (checkpoint_sweep(&sweeping->sweep, &error))
        log_warning("removing old checkpoints: %s", error.text);
    __atomic_store_n(&sweeping->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void release(struct sweeping *sweeping)
{
    if (!sweeping)
        return;
    free(sweeping->steps);
    free(sweeping);
}

/* Copy the records from the mirror. NULL: memory is short, or a record is malformed; then
 * nothing is removed. */
static struct sweeping *look(const struct job *job)
{
    struct sweeping *sweeping = calloc(1, sizeof(*sweeping));
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count;

    keys_job(prefix, job->daemon->config->cluster, job->name, "checkpoints/");
    count = mirror_range(&job->daemon->keys.mirror, prefix, &entries);
    if (sweeping)
        sweeping->steps = calloc(count + 1, sizeof(*sweeping->steps));
    for (size_t i = 0; sweeping && sweeping->steps && i < count; i++) {
        AUTO_JSON json_t *tree = NULL;
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        if (json_parse(entries[i].value, strlen(entries[i].value), entries[i].key, &tree, NULL) ||
            checkpoint_record_decode(tree, &record, NULL)) {
            release(sweeping);
            return NULL;
        }
        sweeping->steps[sweeping->sweep.step_count++] = record.step;
        sweeping->revision = MAX(sweeping->revision, entries[i].mod_revision);
        if (record.unix_ns >= sweeping->written_ns) {
            sweeping->written_ns = record.unix_ns;
            sweeping->sweep.step = record.step;
            sweeping->is_ours = strcmp(record.node, job->daemon->config->node) == 0;
        }
    }
    return sweeping;
}

static bool is_news(struct job_expiry *expiry, const struct sweeping *sweeping)
{
    bool news = sweeping->sweep.step_count != expiry->swept_count ||
                sweeping->revision != expiry->swept_revision;

    expiry->swept_count = sweeping->sweep.step_count;
    expiry->swept_revision = sweeping->revision;
    return news;
}

void retention_sync(struct job *job)
{
    bool own_folder = job->spec.checkpoint.copies >= 2;

    if (!job->plans.plan || !(own_folder || job->plans.plan->layout.worker_count == 0) ||
        (job->expiry.sweeping && !__atomic_load_n(&job->expiry.sweeping->done, __ATOMIC_ACQUIRE)))
        return;
    retention_stop(&job->expiry);
    struct sweeping *sweeping = look(job);
    if (!sweeping || !sweeping->steps || !is_news(&job->expiry, sweeping) ||
        !(own_folder || sweeping->is_ours)) {
        release(sweeping);
        return;
    }
    snprintf(sweeping->folder, sizeof(sweeping->folder), "%s", job->folders.checkpoint_dir);
    sweeping->sweep.folder = sweeping->folder;
    sweeping->sweep.steps = sweeping->steps;
    sweeping->sweep.generation =
        job->plans.plan->change.planned ? job->plans.plan->follows : job->plans.plan->generation;
    if (pthread_create(&sweeping->thread, NULL, run, sweeping)) {
        release(sweeping);
        return;
    }
    job->expiry.sweeping = sweeping;
}

void retention_stop(struct job_expiry *expiry)
{
    if (!expiry->sweeping)
        return;
    pthread_join(expiry->sweeping->thread, NULL);
    release(expiry->sweeping);
    expiry->sweeping = NULL;
}
