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
#include "daemon/config/job_dir.h"
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
    struct kv_request *record_request;
    char job[NAME_SIZE];         /* the job of the task, or of the record being written */
    struct object_record object; /* the object being fetched, or fetched last */
    int64_t object_revision;
    uint64_t own_step;           /* newest checkpoint that the job's nodes have; 0: none */
    char path[RECORD_PATH_SIZE]; /* the folder to create */
    char trouble[RECORD_TEXT_SIZE];
    struct download_memory memory;
    bool said_no_store;
};

static uint64_t now_ns(const struct download *download)
{
    const struct loop *loop = &download->daemon->loop.loop;

    return loop->now_ns(loop->context);
}

static const struct job *find_job(const struct download *download, const char *name)
{
    for (const struct job *job = download->daemon->jobs; job; job = job->next)
        if (!strcmp(job->name, name))
            return job;
    return NULL;
}

static void tell(const struct download *download, const char *text)
{
    char dir[CONFIG_TEXT_SIZE];
    const struct event_facts facts = {.job = download->job,
                                      .node = download->daemon->config->node,
                                      .step = download->object.step,
                                      .pause_seconds = -1};

    job_dir_format(download->daemon->config, download->job, dir);
    events_append(dir, &facts, "checkpoint", text);
}

/* ---- the record ---- */

static const struct mirror_entry *own_record(const struct download *download)
{
    char key[KV_KEY_MAX];

    return mirror_find(&download->daemon->keys.mirror,
                       keys_checkpoint(key, download->daemon->config->cluster, download->job,
                                       download->object.step));
}

static void wait_and_retry(struct download *download, const char *why)
{
    memcpy(download->memory.failed_job, download->job, sizeof(download->job));
    download->memory.retry_at_ns = now_ns(download) + RETRY_NS;
    if (download->own_step)
        log_warning("job %s: the checkpoint of step %" PRIu64
                    " in the object store is newer than the %" PRIu64
                    " that the nodes have, and cannot be fetched now: %s",
                    download->job, download->object.step, download->own_step, why);
    snprintf(download->trouble, sizeof(download->trouble), "%.*s", RECORD_TEXT_SIZE - 1, why);
}

static void on_recorded(void *context, const struct kv_result *result)
{
    struct download *download = context;
    char text[RECORD_PATH_SIZE + 256];

    download->record_request = NULL;
    if (result->status || !result->succeeded) {
        wait_and_retry(download, "the fetched checkpoint could not be recorded yet");
        return;
    }
    snprintf(text, sizeof(text),
             "no node has a checkpoint this new; fetched the checkpoint of step %" PRIu64
             " from the object store: %s",
             download->object.step, download->object.place);
    tell(download, text);
}

/* With copies, this node has all shares at first; other nodes read them from here until they have
 * copies. */
static int list_shares(const struct download *download, const struct manifest *manifest,
                       struct checkpoint_record *record)
{
    int status = 0;

    for (size_t i = 0; !status && i < manifest->file_count; i++)
        if (manifest->files[i].node_count)
            status = copies_add(&record->shares, manifest->files[i].nodes[0],
                                download->daemon->config->node, NULL);
    return status;
}

static char *record_text(const struct download *download, struct error *error)
{
    struct manifest manifest = {0};
    CLEANUP(checkpoint_record_done)
    struct checkpoint_record record = {.step = download->object.step,
                                       .size_bytes = download->object.size_bytes,
                                       .unix_ns = clock_unix_ns()};

    if (manifest_load(download->path, download->object.manifest_sha256, &manifest, error))
        return NULL;
    record.generation = manifest.generation;
    int status = list_shares(download, &manifest, &record);
    manifest_done(&manifest);
    if (status)
        return NULL;
    memcpy(record.path, download->path, sizeof(record.path));
    memcpy(record.manifest_sha256, download->object.manifest_sha256, RECORD_DIGEST_SIZE);
    snprintf(record.node, sizeof(record.node), "%s", download->daemon->config->node);
    AUTO_JSON json_t *tree = checkpoint_record_encode(&record);
    return tree ? json_text(tree) : NULL;
}

static void write_record(struct download *download)
{
    struct daemon *daemon = download->daemon;
    struct error error = {0};
    char key[KV_KEY_MAX];
    const struct mirror_entry *there = own_record(download);
    AUTO_FREE char *text = record_text(download, &error);

    keys_checkpoint(key, daemon->config->cluster, download->job, download->object.step);
    const struct kv_compare compares[] = {
        election_guard(daemon->node.election),
        {.key = key, .target = KV_MOD_REVISION, .value = there ? there->mod_revision : 0},
    };
    const struct kv_operation operation = {.type = KV_PUT, .key = key, .value = text};
    if (!text ||
        daemon->keys.kv->txn(daemon->keys.kv->context, compares, ARRAY_COUNT(compares), &operation,
                             1, on_recorded, download, &download->record_request))
        wait_and_retry(download,
                       error.text[0] ? error.text : "no memory to record the fetched checkpoint");
}

/* ---- the download ---- */

static void finish(struct download *download, const struct object_task_state *state)
{
    char text[ERROR_TEXT_SIZE + 128];

    if (!state->status) {
        write_record(download);
        return;
    }
    if (!download_is_lost(state->status)) {
        wait_and_retry(download, state->error.text);
        return;
    }
    refused_add(&download->memory.refused, download->object_revision, "");
    snprintf(text, sizeof(text),
             "skipping the checkpoint of step %" PRIu64 " in the object store: %s",
             download->object.step, state->error.text);
    tell(download, text);
}

static void on_notified(void *context, int descriptor, unsigned events)
{
    struct download *download = context;
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    uint64_t count;

    (void)events;
    if (!state || read(descriptor, &count, sizeof(count)) < 0 || !download->task)
        return;
    object_task_look(download->task, state);
    if (!state->finished)
        return;
    object_task_free(download->task);
    download->task = NULL;
    finish(download, state);
    daemon_wake(download->daemon);
}

static int open_notify(struct download *download)
{
    const struct loop *loop = &download->daemon->loop.loop;

    if (download->io)
        return 0;
    if (download->notify < 0)
        download->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return download->notify < 0 ? -errno
                                : loop->io_add(loop->context, download->notify, LOOP_READ,
                                               on_notified, download, &download->io);
}

/* Return whether a whole checkpoint is here, judging by file names. With copies, a folder with the
 * same manifest holds only this node's share. */
static bool is_here(const struct download *download)
{
    struct manifest manifest;
    bool here = true;

    if (manifest_load(download->path, download->object.manifest_sha256, &manifest, NULL))
        return false;
    for (size_t i = 0; i < manifest.file_count; i++)
        here = here && manifest.files[i].node_count == 0;
    manifest_done(&manifest);
    return here;
}

static void begin(struct download *download, const struct job *job)
{
    struct object_task_options options = {
        .kind = OBJECT_TASK_FETCH,
        .settings_file = download->daemon->config->object_store,
        .bucket = job->spec.checkpoint.object_bucket,
        .job = job->folders.checkpoint_name,
        .step = download->object.step,
        .manifest_sha256 = download->object.manifest_sha256,
        .folder = download->path,
    };
    char path[1024];

    snprintf(download->job, sizeof(download->job), "%s", job->name);
    download->trouble[0] = '\0';
    checkpoint_path(job->folders.checkpoint_dir, download->object.step, path);
    memcpy(download->path, path, sizeof(path));
    /* No record yet: an earlier leader fetched the checkpoint and did not record it. */
    if (!own_record(download) && is_here(download)) {
        write_record(download);
        return;
    }
    int status = open_notify(download);
    options.notify = download->notify;
    if (!status)
        status = object_task_start(&options, &download->task);
    if (status)
        wait_and_retry(download, strerror(-status));
}

static void say_no_store(struct download *download, const char *job, const char *place)
{
    if (download->said_no_store)
        return;
    download->said_no_store = true;
    log_warning(
        "job %s has a checkpoint in the object store, %s, and object_store is not set in the "
        "leader's configuration: it is not fetched",
        job, place);
}

static void describe(struct download *download, char *ret_text)
{
    AUTO_FREE struct object_task_state *state = calloc(1, sizeof(*state));
    const char *why = download->trouble;

    if (state && download->task) {
        object_task_look(download->task, state);
        why = state->trouble;
    }
    snprintf(ret_text, RECORD_TEXT_SIZE,
             "the checkpoint of step %" PRIu64 " is fetched from the object store%s%.300s",
             download->object.step, why[0] ? ": " : "", why);
}

bool download_holds(struct download *download, const char *name, uint64_t own_step, char *ret_text)
{
    const struct daemon *daemon = download->daemon;
    const struct job *job = find_job(download, name);
    bool busy = download->task || download->record_request;
    struct object_record object;
    int64_t revision;
    const struct download_view view = {.mirror = &daemon->keys.mirror,
                                       .cluster = daemon->config->cluster,
                                       .job = name,
                                       .own_step = own_step,
                                       .now_ns = now_ns(download),
                                       .busy_with = busy ? download->job : "",
                                       .memory = &download->memory};

    enum download_action action = job && job->spec.checkpoint.object_bucket[0]
                                      ? download_choose(&view, &object, &revision)
                                      : DOWNLOAD_GO_ON;
    if (action == DOWNLOAD_QUEUED)
        snprintf(ret_text, RECORD_TEXT_SIZE, "another job's checkpoint is being fetched first");
    if (action == DOWNLOAD_BEGIN && !daemon->config->object_store[0]) {
        say_no_store(download, name, object.place);
        return false;
    }
    if (action == DOWNLOAD_BEGIN) {
        download->object = object;
        download->object_revision = revision;
        download->own_step = own_step;
        begin(download, job);
    }
    if (action == DOWNLOAD_BEGIN || action == DOWNLOAD_WAIT)
        describe(download, ret_text);
    return action != DOWNLOAD_GO_ON;
}

/* ---- start and end ---- */

void download_stop(struct download *download)
{
    download->daemon->keys.kv->cancel(download->daemon->keys.kv->context, download->record_request);
    download->record_request = NULL;
    object_task_free(download->task);
    download->task = NULL;
    download->job[0] = '\0';
}

int download_new(struct daemon *daemon, struct download **ret_download)
{
    struct download *download = calloc(1, sizeof(*download));

    if (!download)
        return -ENOMEM;
    download->daemon = daemon;
    download->notify = -1;
    *ret_download = download;
    return 0;
}

void download_free(struct download *download)
{
    if (!download)
        return;
    const struct loop *loop = &download->daemon->loop.loop;
    download_stop(download);
    if (download->io)
        loop->io_remove(loop->context, download->io);
    if (download->notify >= 0)
        close(download->notify);
    free(download);
}
