#include "daemon/checkpoint/download.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_remove.h"
#include "checkpoint/object/object_task.h"
#include "checkpoint/read/reader.h"
#include "checkpoint/write/retain.h"
#include "daemon/checkpoint/download_choice.h"
#include "daemon/core/daemon.h"
#include "daemon/core/events.h"
#include "daemon/jobs/job.h"
#include "elastic/copies/copies.h"
#include "membership/kv/keys.h"

#define RETRY_NS (15 * NS_PER_SECOND)

struct download {
    struct daemon *daemon;
    int notify; /* the task's thread writes, the loop reads */
    struct loop_io *io;
    struct object_task *task;
    struct kv_request *recording;
    char job[NAME_SIZE];         /* the job of the task, or of the record being written */
    struct object_record object; /* the object being fetched, or fetched last */
    int64_t object_revision;
    uint64_t own_step;           /* newest checkpoint that the job's nodes have; 0: none */
    char path[RECORD_PATH_SIZE]; /* the folder to create */
    char trouble[RECORD_TEXT_SIZE];
    struct fetching_memory memory;
    bool said_no_store;
};

static uint64_t now_ns(const struct download *fetching)
{
    const struct loop *loop = &fetching->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static const struct job *find_job(const struct download *fetching, const char *name)
{
    for (const struct job *job = fetching->daemon->jobs; job; job = job->next)
        if (!strcmp(job->name, name))
            return job;
    return NULL;
}

static void tell(const struct download *fetching, const char *text)
{
    char dir[CONFIG_TEXT_SIZE];
    const struct event_facts facts = {.job = fetching->job,
                                      .node = fetching->daemon->config->node,
                                      .step = fetching->object.step,
                                      .pause_seconds = -1};

    daemon_job_dir(fetching->daemon->config, fetching->job, dir);
    events_append(dir, &facts, "checkpoint", text);
}

/* ---- the record ---- */

static const struct mirror_entry *own_record(const struct download *fetching)
{
    char key[KV_KEY_MAX];

    return mirror_find(&fetching->daemon->keys.mirror,
                       keys_checkpoint(key, fetching->daemon->config->cluster, fetching->job,
                                       fetching->object.step));
}

static void wait_and_retry(struct download *fetching, const char *why)
{
    memcpy(fetching->memory.failed_job, fetching->job, sizeof(fetching->job));
    fetching->memory.retry_at_ns = now_ns(fetching) + RETRY_NS;
    if (fetching->own_step)
        log_warning("job %s: the checkpoint of step %" PRIu64
                    " in the object store is newer than the %" PRIu64
                    " that the nodes have, and cannot be fetched now: %s",
                    fetching->job, fetching->object.step, fetching->own_step, why);
    snprintf(fetching->trouble, sizeof(fetching->trouble), "%.*s", RECORD_TEXT_SIZE - 1, why);
}

static void on_recorded(void *context, const struct kv_result *result)
{
    struct download *fetching = context;
    char text[RECORD_PATH_SIZE + 256];

    fetching->recording = NULL;
    if (result->status || !result->succeeded) {
        wait_and_retry(fetching, "the fetched checkpoint could not be recorded yet");
        return;
    }
    snprintf(text, sizeof(text),
             "no checkpoint as new is left on the nodes; that of step %" PRIu64
             " came back from the object store: %s",
             fetching->object.step, fetching->object.place);
    tell(fetching, text);
}

/* With copies: this node has all shares at first, and the other nodes read them from here until
 * they have copies. */
static int list_shares(const struct download *fetching, const struct manifest *manifest,
                       struct checkpoint_record *record)
{
    int status = 0;

    for (size_t i = 0; !status && i < manifest->file_count; i++)
        if (manifest->files[i].node_count)
            status = copies_add(&record->shares, manifest->files[i].nodes[0],
                                fetching->daemon->config->node, NULL);
    return status;
}

static char *record_text(const struct download *fetching, struct error *error)
{
    struct manifest manifest = {0};
    CLEANUP(checkpoint_record_done)
    struct checkpoint_record record = {.step = fetching->object.step,
                                       .size_bytes = fetching->object.size_bytes,
                                       .unix_ns = clock_real()->realtime_ns(clock_real()->context)};

    if (manifest_load(fetching->path, fetching->object.manifest_sha256, &manifest, error))
        return NULL;
    record.generation = manifest.generation;
    int status = list_shares(fetching, &manifest, &record);
    manifest_done(&manifest);
    if (status)
        return NULL;
    memcpy(record.path, fetching->path, sizeof(record.path));
    memcpy(record.manifest_sha256, fetching->object.manifest_sha256, RECORD_DIGEST_SIZE);
    snprintf(record.node, sizeof(record.node), "%s", fetching->daemon->config->node);
    AUTO_JSON json_t *tree = checkpoint_record_encode(&record);
    return tree ? json_text(tree) : NULL;
}

static void write_record(struct download *fetching)
{
    struct daemon *daemon = fetching->daemon;
    struct error error = {0};
    char key[KV_KEY_MAX];
    const struct mirror_entry *there = own_record(fetching);
    AUTO_FREE char *text = record_text(fetching, &error);

    keys_checkpoint(key, daemon->config->cluster, fetching->job, fetching->object.step);
    const struct kv_compare compares[] = {
        election_guard(daemon->node.election),
        {.key = key, .target = KV_MOD_REVISION, .value = there ? there->mod_revision : 0},
    };
    const struct kv_operation operation = {.type = KV_PUT, .key = key, .value = text};
    if (!text || daemon->keys.kv->txn(daemon->keys.kv->context, compares, ARRAY_COUNT(compares),
                                      &operation, 1, on_recorded, fetching, &fetching->recording))
        wait_and_retry(fetching,
                       error.text[0] ? error.text : "no memory to record the fetched checkpoint");
}

/* ---- fetching ---- */

static void finish(struct download *fetching, const struct object_task_state *state)
{
    char text[ERROR_TEXT_SIZE + 128];

    if (!state->status) {
        write_record(fetching);
        return;
    }
    if (!fetching_is_lost(state->status)) {
        wait_and_retry(fetching, state->error.text);
        return;
    }
    refused_add(&fetching->memory.refused, fetching->object_revision, "");
    snprintf(text, sizeof(text),
             "the checkpoint of step %" PRIu64 " in the object store is passed over: %s",
             fetching->object.step, state->error.text);
    tell(fetching, text);
}

static void on_notified(void *context, int descriptor, unsigned events)
{
    struct download *fetching = context;
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    uint64_t count;

    (void)events;
    if (!state || read(descriptor, &count, sizeof(count)) < 0 || !fetching->task)
        return;
    object_task_look(fetching->task, state);
    if (!state->finished)
        return;
    object_task_free(fetching->task);
    fetching->task = NULL;
    finish(fetching, state);
    daemon_wake(fetching->daemon);
}

static int open_notify(struct download *fetching)
{
    const struct loop *loop = &fetching->daemon->loop.loop;

    if (fetching->io)
        return 0;
    if (fetching->notify < 0)
        fetching->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fetching->notify < 0 ? -errno
                                : loop->io_add(loop->context, fetching->notify, LOOP_READ,
                                               on_notified, fetching, &fetching->io);
}

/* A whole checkpoint is here, as far as file names tell. With copies, a folder with the same
 * manifest holds only this node's share. */
static bool is_here(const struct download *fetching)
{
    struct manifest manifest;
    bool here = true;

    if (manifest_load(fetching->path, fetching->object.manifest_sha256, &manifest, NULL))
        return false;
    for (size_t i = 0; i < manifest.file_count; i++)
        here = here && manifest.files[i].node_count == 0;
    manifest_done(&manifest);
    return here;
}

/* Move the folder at the destination away: a refused checkpoint, or one share of the checkpoint
 * that is to be fetched as a whole. */
static int set_aside(const struct download *fetching, struct error *error)
{
    char damaged[RECORD_PATH_SIZE + 16];

    if (access(fetching->path, F_OK))
        return 0;
    snprintf(damaged, sizeof(damaged), "%s.damaged", fetching->path);
    int status = folder_remove(damaged, error);
    if (!status && rename(fetching->path, damaged))
        status = error_set(error, -errno, "renaming %s to %s: %s", fetching->path, damaged,
                           strerror(errno));
    return status;
}

static void begin(struct download *fetching, const struct job *job)
{
    struct error error = {0};
    struct object_task_options options = {
        .kind = OBJECT_TASK_FETCH,
        .settings_file = fetching->daemon->config->object_store,
        .bucket = job->spec.checkpoint.object_bucket,
        .job = job->folders.checkpoint_name,
        .step = fetching->object.step,
        .manifest_sha256 = fetching->object.manifest_sha256,
        .folder = fetching->path,
    };
    char path[1024];
    int status;

    snprintf(fetching->job, sizeof(fetching->job), "%s", job->name);
    fetching->trouble[0] = '\0';
    checkpoint_path(job->folders.checkpoint_dir, fetching->object.step, path);
    memcpy(fetching->path, path, sizeof(path));
    /* No record yet: an earlier leader fetched the checkpoint and did not record it. */
    if (!own_record(fetching) && is_here(fetching)) {
        write_record(fetching);
        return;
    }
    status = set_aside(fetching, &error);
    if (!status)
        status = open_notify(fetching);
    options.notify = fetching->notify;
    if (!status)
        status = object_task_start(&options, &fetching->task);
    if (status)
        wait_and_retry(fetching, error.text[0] ? error.text : strerror(-status));
}

static void say_no_store(struct download *fetching, const char *job, const char *place)
{
    if (fetching->said_no_store)
        return;
    fetching->said_no_store = true;
    log_warning(
        "job %s has a checkpoint in the object store, %s, and object_store is not set in the "
        "leader's configuration: it is not fetched",
        job, place);
}

static void describe(struct download *fetching, char *ret_text)
{
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    const char *why = fetching->trouble;

    if (state && fetching->task) {
        object_task_look(fetching->task, state);
        why = state->trouble;
    }
    snprintf(ret_text, RECORD_TEXT_SIZE,
             "the checkpoint of step %" PRIu64 " is fetched from the object store%s%.300s",
             fetching->object.step, why[0] ? ": " : "", why);
}

bool download_holds(struct download *fetching, const char *name, uint64_t own_step, char *ret_text)
{
    const struct daemon *daemon = fetching->daemon;
    const struct job *job = find_job(fetching, name);
    bool busy = fetching->task || fetching->recording;
    struct object_record object;
    int64_t revision;
    const struct fetching_view view = {.mirror = &daemon->keys.mirror,
                                       .cluster = daemon->config->cluster,
                                       .job = name,
                                       .own_step = own_step,
                                       .now_ns = now_ns(fetching),
                                       .busy_with = busy ? fetching->job : "",
                                       .memory = &fetching->memory};

    enum fetching_verdict verdict = job && job->spec.checkpoint.object_bucket[0]
                                        ? fetching_choose(&view, &object, &revision)
                                        : FETCHING_GO_ON;
    if (verdict == FETCHING_QUEUED)
        snprintf(ret_text, RECORD_TEXT_SIZE, "another job's checkpoint is being fetched first");
    if (verdict == FETCHING_BEGIN && !daemon->config->object_store[0]) {
        say_no_store(fetching, name, object.place);
        return false;
    }
    if (verdict == FETCHING_BEGIN) {
        fetching->object = object;
        fetching->object_revision = revision;
        fetching->own_step = own_step;
        begin(fetching, job);
    }
    if (verdict == FETCHING_BEGIN || verdict == FETCHING_WAIT)
        describe(fetching, ret_text);
    return verdict != FETCHING_GO_ON;
}

/* ---- start and end ---- */

void download_stop(struct download *fetching)
{
    fetching->daemon->keys.kv->cancel(fetching->daemon->keys.kv->context, fetching->recording);
    fetching->recording = NULL;
    object_task_free(fetching->task);
    fetching->task = NULL;
    fetching->job[0] = '\0';
}

int download_new(struct daemon *daemon, struct download **ret_fetching)
{
    struct download *fetching = calloc(1, sizeof(*fetching));

    if (!fetching)
        return -ENOMEM;
    fetching->daemon = daemon;
    fetching->notify = -1;
    *ret_fetching = fetching;
    return 0;
}

void download_free(struct download *fetching)
{
    if (!fetching)
        return;
    const struct loop *loop = &fetching->daemon->loop.loop;
    download_stop(fetching);
    if (fetching->io)
        loop->io_remove(loop->context, fetching->io);
    if (fetching->notify >= 0)
        close(fetching->notify);
    free(fetching);
}
