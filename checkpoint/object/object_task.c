#include "checkpoint/object/object_task.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/object/object_catalog.h"
#include "checkpoint/object/object_fetch.h"
#include "checkpoint/object/object_s3.h"
#include "checkpoint/object/object_send.h"
#include "checkpoint/object/object_try.h"

#define NICENESS      10
#define NS_PER_SECOND 1000000000ull

struct object_task {
    struct object_task_options options; /* texts are owned; `remote` is used only at the start */
    struct checkpoint_remote *remote;   /* NULL: not needed */
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t stopping;
    struct object_task_state state; /* under the mutex */
};

/* ---- callbacks of the work ---- */

static int task_pause(void *context, uint64_t wait_ns)
{
    struct object_task *task = context;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(ns / NS_PER_SECOND);
    until.tv_nsec = (long)(ns % NS_PER_SECOND);
    pthread_mutex_lock(&task->mutex);
    while (!atomic_load(&task->stop) &&
           pthread_cond_timedwait(&task->stopping, &task->mutex, &until) == 0)
        ;
    pthread_mutex_unlock(&task->mutex);
    return atomic_load(&task->stop) ? -ECANCELED : 0;
}

static void task_progress(void *context, uint64_t done, uint64_t total)
{
    struct object_task *task = context;
    pthread_mutex_lock(&task->mutex);
    task->state.done_bytes = done;
    task->state.total_bytes = total;
    task->state.trouble[0] = '\0';
    pthread_mutex_unlock(&task->mutex);
}

static void task_trouble(void *context, const char *text)
{
    struct object_task *task = context;
    pthread_mutex_lock(&task->mutex);
    snprintf(task->state.trouble, sizeof(task->state.trouble), "%s", text);
    pthread_mutex_unlock(&task->mutex);
}

/* ---- the work ---- */

static int send_and_expire(struct object_task *task, const struct object_store *store,
                           const char *prefix, struct error *error)
{
    const struct object_task_options *options = &task->options;
    const struct object_send_options send = {
        .folder = options->folder,
        .manifest_sha256 = options->manifest_sha256,
        .prefix = prefix,
        .job = options->job,
        .watch = {.pause = task_pause,
                  .progress = task_progress,
                  .trouble = task_trouble,
                  .context = task},
        .remote = task->remote,
        .node = options->node,
        .helps = options->helps,
    };
    struct error trouble = {0};
    uint64_t oldest = 0;
    int status = object_send(store, &send, error);
    if (status != 0 || options->helps)
        return status;
    /* The upload is complete. A failure to remove old checkpoints does not change that. */
    if (object_expire(store, prefix, options->job, options->step, options->manifest_sha256,
                      options->keep, &oldest, &trouble) != 0)
        oldest = 0;
    pthread_mutex_lock(&task->mutex);
    task->state.oldest_step = oldest;
    snprintf(task->state.expire_trouble, sizeof(task->state.expire_trouble), "%s", trouble.text);
    pthread_mutex_unlock(&task->mutex);
    return 0;
}

static int fetch(struct object_task *task, const struct object_store *store, const char *prefix,
                 struct error *error)
{
    const struct object_task_options *options = &task->options;
    struct object_checkpoint found;
    const struct object_fetch_options wanted = {
        .prefix = prefix,
        .job = options->job,
        .step = options->step,
        .manifest_sha256 = options->manifest_sha256,
        .to = options->folder,
        .sets_aside = true,
        .watch = {.pause = task_pause,
                  .progress = task_progress,
                  .trouble = task_trouble,
                  .context = task},
    };
    return object_fetch(store, &wanted, &found, error);
}

static void tell_place(struct object_task *task, const struct object_store *store,
                       const char *prefix)
{
    char folder[OBJECT_KEY_SIZE];
    if (object_folder(prefix, task->options.job, task->options.step, task->options.manifest_sha256,
                      folder) != 0)
        return;
    pthread_mutex_lock(&task->mutex);
    snprintf(task->state.place, sizeof(task->state.place), "%s/%s", store->where, folder);
    pthread_mutex_unlock(&task->mutex);
}

static int work_with(struct object_task *task, const struct object_store *store, const char *prefix,
                     struct error *error)
{
    if (task->options.kind == OBJECT_TASK_TRY)
        return object_try(store, prefix, task->options.job, error);
    tell_place(task, store, prefix);
    return task->options.kind == OBJECT_TASK_SEND ? send_and_expire(task, store, prefix, error)
                                                  : fetch(task, store, prefix, error);
}

static int work(struct object_task *task, struct error *error)
{
    AUTO_FREE struct object_settings *settings = calloc(1, sizeof(*settings));
    struct object_store store;
    if (!settings)
        return error_set(error, -ENOMEM, "no memory for the object store's settings");
    int status = object_settings_load(task->options.settings_file, settings, error);
    if (status == 0)
        status = object_s3_open(settings, task->options.bucket, &task->stop, &store, error);
    if (status == 0) {
        status = work_with(task, &store, settings->prefix, error);
        object_s3_close(&store);
    }
    object_settings_forget(settings);
    return status;
}

static void *run(void *context)
{
    struct object_task *task = context;
    struct error error = {0};
    const uint64_t one = 1;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    int status = work(task, &error);
    pthread_mutex_lock(&task->mutex);
    task->state.finished = true;
    task->state.status = status;
    task->state.error = error;
    pthread_mutex_unlock(&task->mutex);
    if (write(task->options.notify, &one, sizeof(one)) < 0)
        return NULL; /* the eventfd counts to 2^64 and cannot be full */
    return NULL;
}

/* ---- start and end ---- */

static void task_free(struct object_task *task)
{
    free((char *)(uintptr_t)task->options.settings_file);
    free((char *)(uintptr_t)task->options.bucket);
    free((char *)(uintptr_t)task->options.job);
    free((char *)(uintptr_t)task->options.manifest_sha256);
    free((char *)(uintptr_t)task->options.folder);
    free((char *)(uintptr_t)task->options.node);
    checkpoint_remote_free(task->remote);
    pthread_cond_destroy(&task->stopping);
    pthread_mutex_destroy(&task->mutex);
    free(task);
}

static int reach_nodes(struct object_task *task)
{
    if (!task->options.remote)
        return 0;
    struct checkpoint_remote_options remote = *task->options.remote;
    remote.stop = &task->stop;
    return checkpoint_remote_new(&remote, &task->remote, NULL);
}

static struct object_task *task_new(const struct object_task_options *options)
{
    struct object_task *task = calloc(1, sizeof(*task));
    pthread_condattr_t attributes;
    if (!task)
        return NULL;
    task->options = *options;
    task->options.settings_file = strdup(options->settings_file);
    task->options.bucket = strdup(options->bucket);
    task->options.job = strdup(options->job);
    task->options.manifest_sha256 = strdup(options->manifest_sha256);
    task->options.folder = strdup(options->folder);
    task->options.node = strdup(options->node ? options->node : "");
    pthread_mutex_init(&task->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&task->stopping, &attributes);
    pthread_condattr_destroy(&attributes);
    if (task->options.settings_file && task->options.bucket && task->options.job &&
        task->options.manifest_sha256 && task->options.folder && task->options.node &&
        reach_nodes(task) == 0)
        return task;
    task_free(task);
    return NULL;
}

int object_task_start(const struct object_task_options *options, struct object_task **ret_task)
{
    sigset_t all, before;
    struct object_task *task = task_new(options);
    if (!task)
        return -ENOMEM;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&task->thread, NULL, run, task);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status != 0) {
        task_free(task);
        return -status;
    }
    *ret_task = task;
    return 0;
}

void object_task_look(struct object_task *task, struct object_task_state *ret_state)
{
    pthread_mutex_lock(&task->mutex);
    *ret_state = task->state;
    pthread_mutex_unlock(&task->mutex);
}

void object_task_free(struct object_task *task)
{
    if (!task)
        return;
    pthread_mutex_lock(&task->mutex);
    atomic_store(&task->stop, true);
    pthread_cond_broadcast(&task->stopping);
    pthread_mutex_unlock(&task->mutex);
    pthread_join(task->thread, NULL);
    task_free(task);
}
