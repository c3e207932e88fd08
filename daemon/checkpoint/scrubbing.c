#include "daemon/checkpoint/scrubbing.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_before.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/read/scrub.h"
#include "checkpoint/remote/local.h"
#include "checkpoint/replicate/copy_share.h"
#include "daemon/checkpoint/scrubbing_choice.h"
#include "daemon/config/job_dir.h"
#include "daemon/core/checkpoint_entry.h"
#include "daemon/core/daemon.h"
#include "daemon/core/events.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/peers.h"
#include "membership/kv/keys.h"

#define LOOK_NS     (4 * NS_PER_SECOND) /* each round reads the records of all jobs */
#define POLL_NS     (NS_PER_SECOND / 2)
#define RETRY_NS    (10 * 60 * NS_PER_SECOND) /* after a temporary read error */
#define NICENESS    19
#define REPAIRS_MAX 16 /* files repaired per checkpoint */

struct scrubbing {
    struct daemon *daemon;
    struct loop_timer *timer;
    struct kv_request *noting;
    struct scrubbing_memory memory;
    bool oldest_first; /* order of the next choice */
    struct scrubbing_progress progress;
    _Atomic uint64_t done_bytes, total_bytes;
    /* Members of the thread. Only the thread uses the members below until `done`. */
    pthread_t thread;
    bool running;
    bool done; /* set by the thread, with release */
    atomic_bool stop;
    struct scrubbing_task task;
    char job[NAME_SIZE], node[NAME_SIZE], path[RECORD_PATH_SIZE];
    char folder[JOB_CHECKPOINT_DIR_SIZE];
    struct checkpoint_remote *remote; /* for a checkpoint with copies, if other nodes are known */
    int status;
    bool read;            /* false: its mark was recent enough */
    uint64_t verified_ns; /* Unix time */
    struct scrub_finding finding;
    unsigned repaired;
    struct error error;
};

static void wake_in(struct scrubbing *scrubbing, uint64_t delay_ns)
{
    const struct loop *loop = &scrubbing->daemon->loop.loop;

    if (loop->timer_set(loop->context, scrubbing->timer, loop->now_ns(loop->context) + delay_ns))
        log_error("a timer failed: checkpoints are not read back any more");
}

/* ---- the thread ---- */

/* Put the damaged file back: parts of it may be the only good ones. */
static void take_back(const char *bad, const char *file)
{
    if (rename(bad, file) && errno != ENOENT)
        log_warning("renaming %s to %s: %s", bad, file, strerror(errno));
}

/* Move the damaged file away, then complete the writer's share from other nodes. */
static bool repair(struct scrubbing *scrubbing)
{
    const char *why;
    const struct checkpoint_local local = {.io = io_probe(&why),
                                           .folder = scrubbing->folder,
                                           .node = scrubbing->node,
                                           .step = scrubbing->task.record.step,
                                           .links_nothing = true, /* to the same bad block */
                                           .remote = scrubbing->remote};
    char file[FOLDER_FILE_SIZE], bad[FOLDER_FILE_SIZE + 8];
    struct error error = {0};

    if (!scrubbing->remote || !scrubbing->finding.writer[0] || scrubbing->repaired == REPAIRS_MAX)
        return false;
    log_warning("job %s: %s; replacing it with a copy from another node", scrubbing->job,
                scrubbing->error.text);
    folder_file_path(scrubbing->path, scrubbing->finding.file, file);
    snprintf(bad, sizeof(bad), "%s.bad", file);
    if (rename(file, bad) && errno != ENOENT)
        return false;
    if (checkpoint_copy_share(&local, scrubbing->task.record.manifest_sha256,
                              scrubbing->finding.writer, &error)) {
        log_warning("job %s: %s", scrubbing->job, error.text);
        take_back(bad, file);
        return false;
    }
    unlink(bad);
    scrubbing->repaired++;
    return true;
}

static int read_back(struct scrubbing *scrubbing)
{
    const struct scrub_options options = {
        .path = scrubbing->path,
        .node = scrubbing->task.record.shares ? scrubbing->node : NULL,
        .sha256 = scrubbing->task.record.manifest_sha256,
        .seconds = scrubbing->task.seconds,
        .stop = &scrubbing->stop,
        .done_bytes = &scrubbing->done_bytes,
        .total_bytes = &scrubbing->total_bytes,
    };
    int status;

    do
        status = checkpoint_scrub(&options, &scrubbing->finding, &scrubbing->error);
    while (status == -EBADMSG && repair(scrubbing));
    return status;
}

/* Doubt all checkpoints that may share the damaged file: the next one must not link it. */
static void mark_sharing(const struct scrubbing *scrubbing)
{
    const struct scrub_finding *finding = &scrubbing->finding;
    AUTO_FREE char *folder = strdup(scrubbing->path);
    char *slash = folder ? strrchr(folder, '/') : NULL;

    if (!slash)
        return;
    *slash = '\0';
    folder_mark_sharing(folder, finding->file, finding->device, finding->inode);
}

/* Ignore failures: a missing mark costs a second reading, and at worst delays a removal. */
static void set_mark(const struct scrubbing *scrubbing)
{
    struct error error = {0};
    int status = 0;

    if (scrubbing->status == 0)
        status = checkpoint_mark_verified(scrubbing->path, &error);
    else if (scrubbing->status == -EBADMSG)
        status = checkpoint_mark_damaged(scrubbing->path, &error);
    if (scrubbing->status == -EBADMSG && scrubbing->finding.inode)
        mark_sharing(scrubbing);
    if (status && status != -ENOENT)
        log_warning("job %s: %s", scrubbing->job, error.text);
}

static bool was_verified(struct scrubbing *scrubbing)
{
    uint64_t verified_ns = scrubbing->task.doubted ? 0 : checkpoint_verified_ns(scrubbing->path);

    if (!verified_ns || clock_unix_ns() >= verified_ns + SCRUBBING_TERM_S * NS_PER_SECOND)
        return false;
    scrubbing->verified_ns = verified_ns;
    return true;
}

static void *run(void *argument)
{
    struct scrubbing *scrubbing = argument;

    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    scrubbing->read = !was_verified(scrubbing);
    if (scrubbing->read) {
        scrubbing->status = read_back(scrubbing);
        scrubbing->verified_ns = scrubbing->status ? 0 : clock_unix_ns();
        set_mark(scrubbing);
    }
    __atomic_store_n(&scrubbing->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static void join(struct scrubbing *scrubbing)
{
    if (scrubbing->running)
        pthread_join(scrubbing->thread, NULL);
    scrubbing->running = false;
    atomic_store(&scrubbing->total_bytes, 0);
    checkpoint_remote_free(scrubbing->remote);
    scrubbing->remote = NULL;
}

static int reach_others(struct scrubbing *scrubbing, const struct job *job)
{
    AUTO_FREE struct checkpoint_remote_node *nodes = NULL;
    struct checkpoint_remote_options options = {.stop = &scrubbing->stop};
    int status = peers_reach(job, &options, &nodes);

    if (status == -ENOKEY) /* the job rests: record the damage, keep the files */
        return 0;
    return status ? status : checkpoint_remote_new(&options, &scrubbing->remote, NULL);
}

static int start(struct scrubbing *scrubbing, const struct job *job)
{
    const struct checkpoint_record *record = &scrubbing->task.record;
    int status = 0;

    snprintf(scrubbing->job, sizeof(scrubbing->job), "%s", job->name);
    snprintf(scrubbing->node, sizeof(scrubbing->node), "%s", scrubbing->daemon->config->node);
    snprintf(scrubbing->folder, sizeof(scrubbing->folder), "%s", job->folders.checkpoint_dir);
    snprintf(scrubbing->path, sizeof(scrubbing->path), "%s", record->path);
    scrubbing->status = 0;
    scrubbing->repaired = 0;
    scrubbing->done = false;
    atomic_store(&scrubbing->stop, false);
    error_clear(&scrubbing->error);
    if (record->shares) { /* this node's share is in its own folder */
        char path[FOLDER_PATH_SIZE];
        checkpoint_path(job->folders.checkpoint_dir, record->step, path);
        snprintf(scrubbing->path, sizeof(scrubbing->path), "%s", path);
        status = reach_others(scrubbing, job);
    }
    if (!status)
        status = -pthread_create(&scrubbing->thread, NULL, run, scrubbing);
    scrubbing->running = !status;
    return status;
}

/* ---- results ---- */

static void tell(const struct scrubbing *scrubbing, const char *text)
{
    struct daemon *daemon = scrubbing->daemon;
    char dir[CONFIG_TEXT_SIZE];
    const struct event_facts facts = {.job = scrubbing->job,
                                      .node = daemon->config->node,
                                      .step = scrubbing->task.record.step,
                                      .pause_seconds = -1};

    log_warning("job %s: %s", scrubbing->job, text);
    job_dir_format(daemon->config, scrubbing->job, dir);
    events_append(dir, &facts, "checkpoint", text);
}

/* The record may belong to a new checkpoint by now, or another node may have recorded the
 * damage. */
static bool is_news(const struct scrubbing *scrubbing, const struct mirror_entry *entry)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};

    return checkpoint_entry_read(entry, &record) && !record.damaged[0] &&
           !strcmp(record.manifest_sha256, scrubbing->task.record.manifest_sha256);
}

static void on_noted(void *context, const struct kv_result *result)
{
    struct scrubbing *scrubbing = context;

    scrubbing->noting = NULL;
    if (result->status || !result->succeeded) /* a later reading finds the damage again */
        log_info("job %s: damage of a checkpoint could not be noted yet", scrubbing->job);
}

/* Note damage in the record. The caller skips checkpoints with copies, because other nodes have
 * good files, and damaged metrics, without which a job can still resume. */
static void note_damage(struct scrubbing *scrubbing)
{
    struct daemon *daemon = scrubbing->daemon;
    char key[KV_KEY_MAX];
    const struct mirror_entry *entry = mirror_find(
        &daemon->keys.mirror,
        keys_checkpoint(key, daemon->config->cluster, scrubbing->job, scrubbing->task.record.step));
    AUTO_FREE char *text =
        is_news(scrubbing, entry) ? checkpoint_entry_damaged(entry, scrubbing->error.text) : NULL;

    if (!text)
        return;
    const struct kv_compare compare = {
        .key = key, .target = KV_MOD_REVISION, .value = entry->mod_revision};
    const struct kv_operation operation = {.type = KV_PUT, .key = key, .value = text};
    if (daemon->keys.kv->txn(daemon->keys.kv->context, &compare, 1, &operation, 1, on_noted,
                             scrubbing, &scrubbing->noting))
        log_error("job %s: no memory to note a damaged checkpoint", scrubbing->job);
}

static void tell_damage(struct scrubbing *scrubbing)
{
    char text[ERROR_TEXT_SIZE + 256];

    scrubbing->progress.damaged++;
    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64
             " was read back and is damaged: %s. Training goes on, and no later checkpoint shares "
             "its files; look at the disk",
             scrubbing->task.record.step, scrubbing->error.text);
    tell(scrubbing, text);
}

static void tell_repair(struct scrubbing *scrubbing)
{
    char text[256];

    scrubbing->progress.damaged++;
    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64
             " was damaged on this node (%u files): good copies of other nodes have taken their "
             "place; look at the disk",
             scrubbing->task.record.step, scrubbing->repaired);
    tell(scrubbing, text);
}

static void finish(struct scrubbing *scrubbing)
{
    struct daemon *daemon = scrubbing->daemon;
    const char *sha256 = scrubbing->task.record.manifest_sha256;
    bool damaged = scrubbing->status == -EBADMSG;

    join(scrubbing);
    if (scrubbing->repaired) /* the damage shows in the records */
        scrubbing_doubt(&scrubbing->memory, &daemon->keys.mirror, daemon->config->cluster,
                        scrubbing->job);
    bool is_told =
        damaged && scrubbing->finding.is_metrics; /* all other files were read and are good */
    scrubbing_learned(&scrubbing->memory, sha256,
                      is_told ? clock_unix_ns() : scrubbing->verified_ns,
                      scrubbing->status && !is_told ? clock_unix_ns() + RETRY_NS : 0);
    scrubbing->progress.verified += scrubbing->read && scrubbing->status == 0;
    scrubbing->daemon->checkpoints.verified_count = scrubbing->progress.verified;
    if (damaged) {
        tell_damage(scrubbing);
        if (!scrubbing->task.record.shares && !scrubbing->finding.is_metrics)
            note_damage(scrubbing);
    } else if (scrubbing->status && scrubbing->status != -ENOENT) {
        log_info("job %s: the checkpoint of step %" PRIu64 " could not be read back: %s",
                 scrubbing->job, scrubbing->task.record.step, scrubbing->error.text);
    } else if (scrubbing->repaired) {
        tell_repair(scrubbing);
    }
    daemon_wake(daemon); /* may allow the removal of an older checkpoint (retention.h) */
}

/* ---- choosing ---- */

static const struct job *choose(struct scrubbing *scrubbing)
{
    struct daemon *daemon = scrubbing->daemon;
    const struct scrubbing_view view = {.mirror = &daemon->keys.mirror,
                                        .cluster = daemon->config->cluster,
                                        .node = daemon->config->node,
                                        .leads = daemon->node.election &&
                                                 election_leads(daemon->node.election),
                                        .oldest_first = scrubbing->oldest_first,
                                        .unix_ns = clock_unix_ns(),
                                        .memory = &scrubbing->memory};
    enum scrubbing_urgency most = SCRUBBING_NOTHING;
    const struct job *chosen = NULL;

    checkpoint_record_done(&scrubbing->task.record);
    scrubbing->task = (struct scrubbing_task){0};
    for (const struct job *job = daemon->jobs; job && most != SCRUBBING_NEW; job = job->next) {
        struct scrubbing_task task = {0};
        scrubbing_notice(&scrubbing->memory, &daemon->keys.mirror, daemon->config->cluster,
                         job->name);
        enum scrubbing_urgency urgency = scrubbing_choose(&view, job->name, &task);
        if (urgency <= most) {
            checkpoint_record_done(&task.record);
            continue;
        }
        checkpoint_record_done(&scrubbing->task.record);
        scrubbing->task = task;
        most = urgency;
        chosen = job;
    }
    return chosen;
}

static void on_timer(void *context)
{
    struct scrubbing *scrubbing = context;

    if (scrubbing->running && !__atomic_load_n(&scrubbing->done, __ATOMIC_ACQUIRE)) {
        wake_in(scrubbing, POLL_NS);
        return;
    }
    if (scrubbing->running)
        finish(scrubbing);
    const struct job *job =
        scrubbing->noting || scrubbing->daemon->ending.stopping ? NULL : choose(scrubbing);
    if (job)
        scrubbing->oldest_first = !scrubbing->oldest_first;
    if (job && start(scrubbing, job)) {
        join(scrubbing);
        scrubbing_learned(&scrubbing->memory, scrubbing->task.record.manifest_sha256, 0,
                          clock_unix_ns() + RETRY_NS);
    }
    wake_in(scrubbing, scrubbing->running ? POLL_NS : LOOK_NS);
}

struct scrubbing_progress scrubbing_progress(const struct scrubbing *scrubbing)
{
    struct scrubbing_progress progress = scrubbing->progress;

    progress.done_bytes = atomic_load(&scrubbing->done_bytes);
    progress.total_bytes = atomic_load(&scrubbing->total_bytes);
    return progress;
}

/* ---- start and end ---- */

int scrubbing_new(struct daemon *daemon, struct scrubbing **ret_scrubbing)
{
    const struct loop *loop = &daemon->loop.loop;
    struct scrubbing *scrubbing = calloc(1, sizeof(*scrubbing));

    if (!scrubbing)
        return -ENOMEM;
    scrubbing->daemon = daemon;
    int status = loop->timer_add(loop->context, loop->now_ns(loop->context) + LOOK_NS, on_timer,
                                 scrubbing, &scrubbing->timer);
    if (status)
        free(scrubbing);
    else
        *ret_scrubbing = scrubbing;
    return status;
}

void scrubbing_free(struct scrubbing *scrubbing)
{
    if (!scrubbing)
        return;
    const struct loop *loop = &scrubbing->daemon->loop.loop;
    atomic_store(&scrubbing->stop, true);
    join(scrubbing);
    scrubbing->daemon->keys.kv->cancel(scrubbing->daemon->keys.kv->context, scrubbing->noting);
    loop->timer_remove(loop->context, scrubbing->timer);
    checkpoint_record_done(&scrubbing->task.record);
    free(scrubbing);
}
