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
#include "daemon/core/daemon.h"
#include "daemon/core/events.h"
#include "daemon/jobs/job.h"
#include "daemon/jobs/peers.h"
#include "membership/kv/keys.h"

#define LOOK_NS        NS_PER_SECOND
#define RETRY_AWAY_NS  (15 * NS_PER_SECOND) /* the store did not answer */
#define RETRY_WRONG_NS (60 * NS_PER_SECOND) /* an operator has to change something first */

struct storing {
    struct daemon *daemon;
    int notify; /* the task's thread writes, the loop reads */
    struct loop_io *io;
    struct loop_timer *timer;
    struct object_task *task;
    enum storing_role role; /* role in the task below, and the checkpoint's record */
    struct object_record record;
    char job[NAME_SIZE];
    uint64_t begun_ns;
    struct storing_memory memory;
};

static uint64_t now_ns(const struct storing *storing)
{
    const struct loop *loop = &storing->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static void wake_at(struct storing *storing, uint64_t at_ns)
{
    const struct loop *loop = &storing->daemon->loop.loop;

    if (loop->timer_set(loop->context, storing->timer, at_ns))
        log_error("the object store's timer failed");
}

static const struct mirror_entry *find_spec(const struct storing *storing, const char *job)
{
    char key[KV_KEY_MAX];

    return mirror_find(&storing->daemon->keys.mirror,
                       keys_job(key, storing->daemon->config->cluster, job, "spec"));
}

static void tell(const struct storing *storing, const char *text)
{
    struct daemon *daemon = storing->daemon;
    char dir[CONFIG_TEXT_SIZE];
    const struct event_facts facts = {.job = storing->job,
                                      .node = daemon->config->node,
                                      .step = storing->record.step,
                                      .pause_seconds = -1};

    daemon_job_dir(daemon->config, storing->job, dir);
    events_append(dir, &facts, "checkpoint", text);
}

/* ---- records ---- */

/* Write nothing for a job that was removed meanwhile: the key would never be deleted. */
static void write_record(struct storing *storing)
{
    struct daemon *daemon = storing->daemon;
    char key[KV_KEY_MAX];

    if (!find_spec(storing, storing->job))
        return;
    storing->record.unix_ns = clock_real()->realtime_ns(clock_real()->context);
    AUTO_JSON json_t *tree = object_record_encode(&storing->record);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    if (!text ||
        outbox_put(daemon->keys.outbox,
                   keys_object(key, daemon->config->cluster, storing->job, storing->record.step),
                   text))
        log_error("job %s: no memory to write how far its checkpoint is", storing->job);
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
        log_debug("old records of the object store stay a little: %s", result->error.text);
}

/* Delete records of checkpoints older than the oldest that stays: they were removed from the
 * store or never uploaded. */
static void forget_expired(struct storing *storing, uint64_t oldest_step)
{
    struct daemon *daemon = storing->daemon;
    struct kv_operation operations[KV_TXN_MAX / 2];
    const struct mirror_entry *entries;
    struct kv_request *request;
    char prefix[KV_KEY_MAX];
    size_t used = 0,
           count = mirror_range(&daemon->keys.mirror,
                                keys_job(prefix, daemon->config->cluster, storing->job, "objects/"),
                                &entries);

    for (size_t i = 0; i < count && used < ARRAY_COUNT(operations); i++) {
        struct object_record record;
        if (read_object(&entries[i], &record) && record.step < storing->record.step &&
            (record.step < oldest_step || record.state != RECORD_COMPLETE))
            operations[used++] = (struct kv_operation){.type = KV_DELETE, .key = entries[i].key};
    }
    if (used && daemon->keys.kv->txn(daemon->keys.kv->context, NULL, 0, operations, used,
                                     on_forgotten, NULL, &request))
        log_debug("old records of the object store stay a little");
}

/* ---- sending ---- */

static void on_notified(void *context, int descriptor, unsigned events);

/* Created on first use: a daemon with nothing to upload needs no descriptor. */
static int open_notify(struct storing *storing)
{
    const struct loop *loop = &storing->daemon->loop.loop;

    if (storing->io)
        return 0;
    if (storing->notify < 0)
        storing->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return storing->notify < 0 ? -errno
                               : loop->io_add(loop->context, storing->notify, LOOP_READ,
                                              on_notified, storing, &storing->io);
}

static int start(struct storing *storing, const struct job *job,
                 const struct checkpoint_record *record)
{
    const struct config *config = storing->daemon->config;
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
        .notify = storing->notify,
        .helps = storing->role == STORING_HELPS,
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
    return object_task_start(&options, &storing->task);
}

static void begin(struct storing *storing, const struct job *job, enum storing_role role,
                  const struct checkpoint_record *record)
{
    int status = open_notify(storing);

    storing->role = role;
    snprintf(storing->job, sizeof(storing->job), "%s", job->name);
    storing->begun_ns = now_ns(storing);
    storing->record = (struct object_record){
        .state = RECORD_UPLOADING, .step = record->step, .size_bytes = record->size_bytes};
    memcpy(storing->record.manifest_sha256, record->manifest_sha256, RECORD_DIGEST_SIZE);
    snprintf(storing->record.node, sizeof(storing->record.node), "%s",
             storing->daemon->config->node);
    if (!status)
        status = start(storing, job, record);
    if (status) {
        log_error("job %s: a checkpoint could not be sent to the object store (%s); trying again",
                  job->name, strerror(-status));
        storing_failed(&storing->memory, job->name, record->manifest_sha256,
                       storing->begun_ns + RETRY_AWAY_NS);
        wake_at(storing, storing->begun_ns + RETRY_AWAY_NS);
        return;
    }
    if (role == STORING_SENDS && record->shares)
        write_record(storing); /* the other nodes help when they see the record */
    wake_at(storing, storing->begun_ns + LOOK_NS);
}

/* ---- trying ---- */

/* Try the store early: a wrong key must show before hours have been computed. */
static int start_trying(struct storing *storing, const struct job *job)
{
    const struct object_task_options options = {
        .kind = OBJECT_TASK_TRY,
        .settings_file = storing->daemon->config->object_store,
        .bucket = job->spec.checkpoint.object_bucket,
        .job = job->folders.checkpoint_name,
        .manifest_sha256 = "",
        .folder = "",
        .notify = storing->notify,
    };

    return object_task_start(&options, &storing->task);
}

static void say_untried(const struct storing *storing, const char *why)
{
    char text[ERROR_TEXT_SIZE + 256];

    snprintf(text, sizeof(text),
             "checkpoints cannot go from this node to the object store, and stay on disk: %s", why);
    log_warning("job %s: %s", storing->job, text);
    tell(storing, text);
}

static void begin_to_try(struct storing *storing, struct job *job)
{
    job->store_tried = true;
    storing->role = STORING_TRIES;
    storing->record = (struct object_record){0};
    snprintf(storing->job, sizeof(storing->job), "%s", job->name);
    if (!storing->daemon->config->object_store[0]) {
        say_untried(storing, "object_store is not set in its configuration");
        return;
    }
    int status = open_notify(storing);
    if (!status)
        status = start_trying(storing, job);
    if (status)
        log_error("job %s: the object store could not be tried (%s)", job->name, strerror(-status));
    else
        wake_at(storing, now_ns(storing) + LOOK_NS);
}

void upload_sync(struct storing *storing)
{
    struct daemon *daemon = storing->daemon;
    const char *node = daemon->config->node;
    const struct storing_view view = {.mirror = &daemon->keys.mirror,
                                      .cluster = daemon->config->cluster,
                                      .node = node,
                                      .leads = daemon->node.election &&
                                               election_leads(daemon->node.election),
                                      .now_ns = now_ns(storing),
                                      .memory = &storing->memory};

    for (struct job *job = daemon->jobs; job && !storing->task && !daemon->ending.stopping;
         job = job->next) {
        if (!job->spec.checkpoint.object_bucket[0])
            continue;
        CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
        enum storing_role role = storing_choose(&view, job->name, &record);
        if (!job->store_tried && (role != STORING_NOTHING ||
                                  (job->plans.plan && storing_will_send(job->plans.plan, node))))
            begin_to_try(storing, job);
        else if (role != STORING_NOTHING && daemon->config->object_store[0])
            begin(storing, job, role, &record);
    }
}

/* ---- progress ---- */

static void take_state(struct storing *storing, const struct object_task_state *state)
{
    struct object_record *record = &storing->record;

    if (state->total_bytes) {
        record->size_bytes = state->total_bytes;
        record->done_bytes = state->done_bytes;
    }
    snprintf(record->place, sizeof(record->place), "%.*s", RECORD_PATH_SIZE - 1, state->place);
    snprintf(record->text, sizeof(record->text), "%.*s", RECORD_TEXT_SIZE - 1, state->trouble);
}

static void finish_good(struct storing *storing, const struct object_task_state *state)
{
    char text[RECORD_PATH_SIZE + 256], size[SIZE_WORDS_SIZE];
    double seconds = (double)(now_ns(storing) - storing->begun_ns) / 1e9;

    storing->record.state = RECORD_COMPLETE;
    storing->record.text[0] = '\0';
    write_record(storing);
    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64 " is in the object store: %s, %s in %.1f s",
             storing->record.step, storing->record.place,
             size_words(storing->record.size_bytes, size), seconds);
    tell(storing, text);
    if (state->expire_trouble[0])
        log_warning("job %s: old checkpoints stay in the object store: %s", storing->job,
                    state->expire_trouble);
    forget_expired(storing, state->oldest_step);
}

static void say_bad(struct storing *storing, const struct object_task_state *state, bool away)
{
    char text[ERROR_TEXT_SIZE + 256];

    snprintf(text, sizeof(text),
             "checkpoint of step %" PRIu64 " is not in the object store yet: %s; tried again every "
             "%llu s while it is the newest",
             storing->record.step, state->error.text,
             (away ? RETRY_AWAY_NS : RETRY_WRONG_NS) / NS_PER_SECOND);
    tell(storing, text);
}

static void finish_bad(struct storing *storing, const struct object_task_state *state)
{
    bool away = state->status == -EAGAIN;
    uint64_t retry_at_ns = now_ns(storing) + (away ? RETRY_AWAY_NS : RETRY_WRONG_NS);

    if (storing->role == STORING_SENDS) {
        storing->record.state = RECORD_FAILED;
        snprintf(storing->record.text, sizeof(storing->record.text), "%.*s", RECORD_TEXT_SIZE - 1,
                 state->error.text);
        write_record(storing);
    }
    wake_at(storing, retry_at_ns);
    if (!storing_failed(&storing->memory, storing->job, storing->record.manifest_sha256,
                        retry_at_ns)) /* logged once */
        say_bad(storing, state, away);
}

/* Only the node that puts the manifest writes the record. */
static void finish_help(const struct storing *storing)
{
    log_info("job %s: this node's part of the checkpoint of step %" PRIu64
             " is in the object store: %s",
             storing->job, storing->record.step, storing->record.place);
}

static void finish(struct storing *storing, const struct object_task_state *state)
{
    if (storing->role == STORING_TRIES) {
        if (state->status)
            say_untried(storing, state->error.text);
        return;
    }
    take_state(storing, state);
    if (state->status) {
        finish_bad(storing, state);
        return;
    }
    storing_succeeded(&storing->memory, storing->role, storing->job,
                      storing->record.manifest_sha256);
    if (storing->role == STORING_HELPS)
        finish_help(storing);
    else
        finish_good(storing, state);
}

static void on_notified(void *context, int descriptor, unsigned events)
{
    struct storing *storing = context;
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    uint64_t count;

    (void)events;
    if (read(descriptor, &count, sizeof(count)) < 0 || !storing->task)
        return;
    if (!state) { /* retried when there is memory */
        wake_at(storing, now_ns(storing) + LOOK_NS);
        return;
    }
    object_task_look(storing->task, state);
    if (!state->finished)
        return;
    object_task_free(storing->task);
    storing->task = NULL;
    finish(storing, state);
    daemon_wake(storing->daemon);
}

static void on_timer(void *context)
{
    struct storing *storing = context;
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    uint64_t done_before = storing->record.done_bytes;
    char text_before[RECORD_TEXT_SIZE];
    const uint64_t one = 1;

    if (!storing->task) {
        daemon_wake(storing->daemon); /* a postponed upload may be due */
        return;
    }
    wake_at(storing, now_ns(storing) + LOOK_NS);
    if (!state)
        return;
    object_task_look(storing->task, state);
    if (state->finished) { /* its result was lost for want of memory */
        if (write(storing->notify, &one, sizeof(one)) < 0)
            log_error("the object store's event cannot be written");
        return;
    }
    memcpy(text_before, storing->record.text, sizeof(text_before));
    take_state(storing, state);
    if (storing->role == STORING_SENDS &&
        (storing->record.done_bytes != done_before || strcmp(storing->record.text, text_before)))
        write_record(storing);
}

/* ---- start and end ---- */

/* Warn only. Jobs without a bucket do not need the settings, and every upload reads them anew. */
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

int upload_new(struct daemon *daemon, struct storing **ret_storing)
{
    const struct loop *loop = &daemon->loop.loop;
    struct storing *storing = calloc(1, sizeof(*storing));
    int status;

    if (!storing)
        return -ENOMEM;
    storing->daemon = daemon;
    storing->notify = -1;
    status = loop->timer_add(loop->context, UINT64_MAX, on_timer, storing, &storing->timer);
    if (status) {
        upload_free(storing);
        return status;
    }
    check_settings(daemon->config);
    *ret_storing = storing;
    return 0;
}

void upload_free(struct storing *storing)
{
    if (!storing)
        return;
    const struct loop *loop = &storing->daemon->loop.loop;
    object_task_free(storing->task);
    if (storing->io)
        loop->io_remove(loop->context, storing->io);
    if (storing->timer)
        loop->timer_remove(loop->context, storing->timer);
    if (storing->notify >= 0)
        close(storing->notify);
    free(storing);
}
