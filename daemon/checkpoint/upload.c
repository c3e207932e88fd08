#include "daemon/checkpoint/upload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/size_words.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/object/object_settings.h"
#include "checkpoint/object/object_task.h"
#include "checkpoint/read/reader.h"
#include "daemon/checkpoint/upload_choice.h"
#include "daemon/config/job_dir.h"
#include "daemon/core/daemon.h"
#include "daemon/core/events.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/peers.h"
#include "membership/kv/keys.h"

#define LOOK_NS        NS_PER_SECOND
#define RETRY_AWAY_NS  (15 * NS_PER_SECOND) /* the store did not answer */
#define RETRY_WRONG_NS (60 * NS_PER_SECOND) /* an operator has to change something first */

struct upload {
    struct daemon *daemon;
    int notify; /* the task's thread writes, the loop reads */
    struct loop_io *io;
    struct loop_timer *timer;
    struct object_task *task;
    enum upload_role role; /* role in the task below, and the checkpoint's record */
    struct object_record record;
    char job[NAME_SIZE];
    uint64_t begun_ns;
};

static uint64_t now_ns(const struct upload *upload)
{
    const struct loop *loop = &upload->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void wake_at(struct upload *upload, uint64_t at_ns)
{
    const struct loop *loop = &upload->daemon->loop.loop;

    if (loop->timer_set(loop->context, upload->timer, at_ns))
        log_error("the object store's timer failed");
}

static const struct mirror_entry *find_spec(const struct upload *upload, const char *job)
{
    char key[KV_KEY_MAX];

    return mirror_find(&upload->daemon->keys.mirror,
                       keys_job(key, upload->daemon->config->cluster, job, "spec"));
}

static void tell(const struct upload *upload, const char *text)
{
    struct daemon *daemon = upload->daemon;
    char dir[CONFIG_TEXT_SIZE];
    const struct event_facts facts = {.job = upload->job,
                                      .node = daemon->config->node,
                                      .step = upload->record.step,
                                      .pause_seconds = -1};

    job_dir_format(daemon->config, upload->job, dir);
    events_append(dir, &facts, "checkpoint", text);
}

/* ---- records ---- */

/* Write nothing for a job that was removed meanwhile: the key would never be deleted. */
static void write_record(struct upload *upload)
{
    struct daemon *daemon = upload->daemon;
    char key[KV_KEY_MAX];

    if (!find_spec(upload, upload->job))
        return;
    upload->record.unix_ns = clock_unix_ns();
    AUTO_JSON json_t *tree = object_record_encode(&upload->record);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    if (!text ||
        outbox_put(daemon->keys.outbox,
                   keys_object(key, daemon->config->cluster, upload->job, upload->record.step),
                   text))
        log_error("job %s: no memory to record the progress of its upload", upload->job);
}

static bool read_object(const struct mirror_entry *entry, struct object_record *ret_record)
{
    AUTO_JSON json_t *tree = NULL;

    return !json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) &&
           !object_record_decode(tree, ret_record, NULL);
}

static void on_forgotten(void *context, const struct kv_result *result)
{
    (void)context;
    if (result->status)
        log_debug("old records of the object store are kept for now: %s", result->error.text);
}

/* Delete records of checkpoints older than the oldest that stays: they were removed from the
 * store or never uploaded. */
static void forget_expired(struct upload *upload, uint64_t oldest_step)
{
    struct daemon *daemon = upload->daemon;
    struct kv_operation operations[KV_TXN_MAX / 2];
    const struct mirror_entry *entries;
    struct kv_request *request;
    char prefix[KV_KEY_MAX];
    size_t used = 0,
           count = mirror_range(&daemon->keys.mirror,
                                keys_job(prefix, daemon->config->cluster, upload->job, "objects/"),
                                &entries);

    for (size_t i = 0; i < count && used < ARRAY_COUNT(operations); i++) {
        struct object_record record;
        if (read_object(&entries[i], &record) && record.step < upload->record.step &&
            (record.step < oldest_step || record.state != RECORD_COMPLETE))
            operations[used++] = (struct kv_operation){.type = KV_DELETE, .key = entries[i].key};
    }
    if (used && daemon->keys.kv->txn(daemon->keys.kv->context, NULL, 0, operations, used,
                                     on_forgotten, NULL, &request))
        log_debug("old records of the object store are kept for now");
}

/* ---- sending ---- */

static void on_notified(void *context, int descriptor, unsigned events);

/* Created on first use: a daemon with nothing to upload needs no descriptor. */
static int open_notify(struct upload *upload)
{
    const struct loop *loop = &upload->daemon->loop.loop;

    if (upload->io)
        return 0;
    if (upload->notify < 0)
        upload->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return upload->notify < 0 ? -errno
                              : loop->io_add(loop->context, upload->notify, LOOP_READ, on_notified,
                                             upload, &upload->io);
}

static int start(struct upload *upload, const struct job *job,
                 const struct checkpoint_record *record)
{
    const struct config *config = upload->daemon->config;
    AUTO_FREE struct checkpoint_remote_node *nodes = NULL;
    struct checkpoint_remote_options remote = {0};
    char path[1024];
    struct object_task_options options = {
        .kind = OBJECT_TASK_SEND,
        .settings_file = config->object_store,
        .bucket = job->spec.checkpoint.object_bucket,
        .job = job->folders.checkpoint_name,
        .step = record->step,
        .manifest_sha256 = record->manifest_sha256,
        .folder = record->path,
        .keep = job->spec.checkpoint.object_keep,
        .notify = upload->notify,
        .helps = upload->role == UPLOAD_HELPS,
    };

    if (record->shares) { /* this node's share is in its own folder */
        int status = peers_reach(job, &remote, &nodes);
        if (status)
            return status;
        checkpoint_path(job->folders.checkpoint_dir, record->step, path);
        options.folder = path;
        options.node = config->node;
        options.remote = &remote;
    }
    return object_task_start(&options, &upload->task);
}

static void begin(struct upload *upload, struct job *job, enum upload_role role,
                  const struct checkpoint_record *record)
{
    int status = open_notify(upload);

    upload->role = role;
    snprintf(upload->job, sizeof(upload->job), "%s", job->name);
    upload->begun_ns = now_ns(upload);
    upload->record = (struct object_record){
        .state = RECORD_UPLOADING, .step = record->step, .size_bytes = record->size_bytes};
    memcpy(upload->record.manifest_sha256, record->manifest_sha256, RECORD_DIGEST_SIZE);
    snprintf(upload->record.node, sizeof(upload->record.node), "%s", upload->daemon->config->node);
    if (!status)
        status = start(upload, job, record);
    if (status) {
        log_error("job %s: a checkpoint could not be sent to the object store (%s); trying again",
                  job->name, strerror(-status));
        upload_memory_failed(&job->upload, record->manifest_sha256,
                             upload->begun_ns + RETRY_AWAY_NS);
        wake_at(upload, upload->begun_ns + RETRY_AWAY_NS);
        return;
    }
    if (role == UPLOAD_SENDS && record->shares)
        write_record(upload); /* the other nodes help when they see the record */
    wake_at(upload, upload->begun_ns + LOOK_NS);
}

/* ---- trying ---- */

/* Try the store early: a wrong key must show before hours have been computed. */
static int start_trying(struct upload *upload, const struct job *job)
{
    const struct object_task_options options = {
        .kind = OBJECT_TASK_TRY,
        .settings_file = upload->daemon->config->object_store,
        .bucket = job->spec.checkpoint.object_bucket,
        .job = job->folders.checkpoint_name,
        .manifest_sha256 = "",
        .folder = "",
        .notify = upload->notify,
    };

    return object_task_start(&options, &upload->task);
}

static void say_untried(const struct upload *upload, const char *why)
{
    char text[ERROR_TEXT_SIZE + 256];

    snprintf(text, sizeof(text),
             "this node cannot upload checkpoints to the object store; they stay on disk: %s", why);
    log_warning("job %s: %s", upload->job, text);
    tell(upload, text);
}

static void begin_to_try(struct upload *upload, struct job *job)
{
    job->upload.tried = true;
    upload->role = UPLOAD_TRIES;
    upload->record = (struct object_record){0};
    snprintf(upload->job, sizeof(upload->job), "%s", job->name);
    if (!upload->daemon->config->object_store[0]) {
        say_untried(upload, "object_store is not set in its configuration");
        return;
    }
    int status = open_notify(upload);
    if (!status)
        status = start_trying(upload, job);
    if (status)
        log_error("job %s: the object store could not be tried (%s)", job->name, strerror(-status));
    else
        wake_at(upload, now_ns(upload) + LOOK_NS);
}

void upload_sync(struct upload *upload)
{
    struct daemon *daemon = upload->daemon;
    const char *node = daemon->config->node;
    struct upload_view view = {.mirror = &daemon->keys.mirror,
                               .cluster = daemon->config->cluster,
                               .node = node,
                               .leads =
                                   daemon->node.election && election_leads(daemon->node.election),
                               .now_ns = now_ns(upload)};

    for (struct job *job = daemon->jobs; job && !upload->task && !daemon->ending.stopping;
         job = job->next) {
        if (!job->spec.checkpoint.object_bucket[0])
            continue;
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        view.memory = &job->upload;
        enum upload_role role = upload_choose(&view, job->name, &record);
        if (!job->upload.tried && (role != UPLOAD_NOTHING ||
                                   (job->plans.plan && upload_will_send(job->plans.plan, node))))
            begin_to_try(upload, job);
        else if (role != UPLOAD_NOTHING && daemon->config->object_store[0])
            begin(upload, job, role, &record);
    }
}

/* ---- progress ---- */

static void take_state(struct upload *upload, const struct object_task_state *state)
{
    struct object_record *record = &upload->record;

    if (state->total_bytes) {
        record->size_bytes = state->total_bytes;
        record->done_bytes = state->done_bytes;
    }
    snprintf(record->place, sizeof(record->place), "%.*s", RECORD_PATH_SIZE - 1, state->place);
    snprintf(record->text, sizeof(record->text), "%.*s", RECORD_TEXT_SIZE - 1, state->trouble);
}

static void finish_good(struct upload *upload, const struct object_task_state *state)
{
    char text[RECORD_PATH_SIZE + 256], size[SIZE_WORDS_SIZE];
    double seconds = (double)(now_ns(upload) - upload->begun_ns) / 1e9;

    upload->record.state = RECORD_COMPLETE;
    upload->record.text[0] = '\0';
    write_record(upload);
    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64 " is in the object store: %s, %s in %.1f s",
             upload->record.step, upload->record.place, size_words(upload->record.size_bytes, size),
             seconds);
    tell(upload, text);
    if (state->expire_trouble[0])
        log_warning("job %s: old checkpoints stay in the object store: %s", upload->job,
                    state->expire_trouble);
    forget_expired(upload, state->oldest_step);
}

static void say_bad(struct upload *upload, const struct object_task_state *state, bool away)
{
    char text[ERROR_TEXT_SIZE + 256];

    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64 " is not in the object store yet: %s; tried again every "
             "%llu s while it is the newest",
             upload->record.step, state->error.text,
             (away ? RETRY_AWAY_NS : RETRY_WRONG_NS) / NS_PER_SECOND);
    tell(upload, text);
}

static void finish_bad(struct upload *upload, struct job *job,
                       const struct object_task_state *state)
{
    bool away = state->status == -EAGAIN;
    uint64_t retry_at_ns = now_ns(upload) + (away ? RETRY_AWAY_NS : RETRY_WRONG_NS);

    if (upload->role == UPLOAD_SENDS) {
        upload->record.state = RECORD_FAILED;
        snprintf(upload->record.text, sizeof(upload->record.text), "%.*s", RECORD_TEXT_SIZE - 1,
                 state->error.text);
        write_record(upload);
    }
    wake_at(upload, retry_at_ns);
    if (!job || !upload_memory_failed(&job->upload, upload->record.manifest_sha256, retry_at_ns))
        say_bad(upload, state, away); /* once */
}

/* Only the node that puts the manifest writes the record. */
static void finish_help(const struct upload *upload)
{
    log_info("job %s: this node's part of the checkpoint of step %" PRIu64
             " is in the object store: %s",
             upload->job, upload->record.step, upload->record.place);
}

/* Return the job of the upload; NULL: removed meanwhile. */
static struct job *job_of(const struct upload *upload)
{
    for (struct job *job = upload->daemon->jobs; job; job = job->next)
        if (!strcmp(job->name, upload->job))
            return job;
    return NULL;
}

static void note_success(const struct upload *upload, struct job *job)
{
    if (job && upload->role == UPLOAD_HELPS)
        upload_memory_helped(&job->upload, upload->record.manifest_sha256);
    else if (job)
        upload_memory_sent(&job->upload, upload->record.manifest_sha256);
}

static void finish(struct upload *upload, const struct object_task_state *state)
{
    struct job *job = job_of(upload);

    if (upload->role == UPLOAD_TRIES) {
        if (state->status)
            say_untried(upload, state->error.text);
        return;
    }
    take_state(upload, state);
    if (state->status) {
        finish_bad(upload, job, state);
        return;
    }
    note_success(upload, job);
    if (upload->role == UPLOAD_HELPS)
        finish_help(upload);
    else
        finish_good(upload, state);
}

static void on_notified(void *context, int descriptor, unsigned events)
{
    struct upload *upload = context;
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    uint64_t count;

    (void)events;
    if (read(descriptor, &count, sizeof(count)) < 0 || !upload->task)
        return;
    if (!state) { /* no memory: retried later */
        wake_at(upload, now_ns(upload) + LOOK_NS);
        return;
    }
    object_task_look(upload->task, state);
    if (!state->finished)
        return;
    object_task_free(upload->task);
    upload->task = NULL;
    finish(upload, state);
    daemon_wake(upload->daemon);
}

static void on_timer(void *context)
{
    struct upload *upload = context;
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    uint64_t done_before = upload->record.done_bytes;
    char text_before[RECORD_TEXT_SIZE];
    const uint64_t one = 1;

    if (!upload->task) {
        daemon_wake(upload->daemon); /* a postponed upload may be due */
        return;
    }
    wake_at(upload, now_ns(upload) + LOOK_NS);
    if (!state)
        return;
    object_task_look(upload->task, state);
    if (state->finished) { /* its result was lost because memory was short */
        if (write(upload->notify, &one, sizeof(one)) < 0)
            log_error("the object store's event cannot be written");
        return;
    }
    memcpy(text_before, upload->record.text, sizeof(text_before));
    take_state(upload, state);
    if (upload->role == UPLOAD_SENDS &&
        (upload->record.done_bytes != done_before || strcmp(upload->record.text, text_before)))
        write_record(upload);
}

/* ---- start and end ---- */

/* Only warn: jobs without a bucket do not need the settings, and every upload reads them anew. */
static void check_settings(const struct config *config)
{
    AUTO_FREE struct object_settings *settings = calloc(1, sizeof(*settings));
    struct error error = {0};

    if (!settings || !config->object_store[0])
        return;
    if (object_settings_load(config->object_store, settings, &error))
        log_warning("object_store: %s; checkpoints of jobs that name a bucket stay on disk",
                    error.text);
    object_settings_forget(settings);
}

int upload_new(struct daemon *daemon, struct upload **ret_upload)
{
    const struct loop *loop = &daemon->loop.loop;
    struct upload *upload = calloc(1, sizeof(*upload));
    int status;

    if (!upload)
        return -ENOMEM;
    upload->daemon = daemon;
    upload->notify = -1;
    status = loop->timer_add(loop->context, UINT64_MAX, on_timer, upload, &upload->timer);
    if (status) {
        upload_free(upload);
        return status;
    }
    check_settings(daemon->config);
    *ret_upload = upload;
    return 0;
}

void upload_free(struct upload *upload)
{
    if (!upload)
        return;
    const struct loop *loop = &upload->daemon->loop.loop;
    object_task_free(upload->task);
    if (upload->io)
        loop->io_remove(loop->context, upload->io);
    if (upload->timer)
        loop->timer_remove(loop->context, upload->timer);
    if (upload->notify >= 0)
        close(upload->notify);
    free(upload);
}
