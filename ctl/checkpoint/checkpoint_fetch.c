/* firnctl checkpoint fetch: download a checkpoint from the object store. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/size_words.h"
#include "checkpoint/object/object_fetch.h"
#include "checkpoint/object/object_s3.h"
#include "ctl/cluster/cluster.h"
#include "ctl/cluster/cluster_client.h"
#include "ctl/command/commands.h"
#include "ctl/view/format.h"
#include "ctl/view/meter.h"
#include "elastic/job/job_spec.h"

struct wanted {
    char bucket[NAME_SIZE];
    char manifest_sha256[RECORD_DIGEST_SIZE];     /* "": not known */
    char job[NAME_SIZE + RECORD_SUBMISSION_SIZE]; /* as in the store's keys */
    uint64_t step;
    bool any;
};

/* Read the bucket and the committed checkpoint from etcd, unless the job has been removed. */
static int ask_cluster(const struct arguments *arguments, struct wanted *wanted,
                       struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, arguments->operands[0], error);
    if (!job || !job->spec)
        return job ? error_set(error, -ENOENT, "job %s has no specification", job->name) : -ENOENT;
    if (!job->spec->checkpoint.object_bucket[0])
        return error_set(error, -ENOENT,
                         "job %s has no checkpoint.object.bucket; --bucket names one", job->name);
    strcpy(wanted->bucket, job->spec->checkpoint.object_bucket);
    snprintf(wanted->job, sizeof(wanted->job), "%s%s%s", job->name,
             job->submission.id[0] ? "." : "", job->submission.id);
    for (size_t i = 0; i < job->object_count; i++)
        if (!wanted->any && job->objects[i].step == wanted->step &&
            job->objects[i].state == RECORD_COMPLETE)
            strcpy(wanted->manifest_sha256, job->objects[i].manifest_sha256);
    return 0;
}

static int wait_a_little(void *context, uint64_t wait_ns)
{
    (void)context;
    return poll(NULL, 0, (int)(wait_ns / NS_PER_MS)) < 0 ? -ECANCELED : 0;
}

static void say_trouble(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "firnctl: %s; trying again\n", text);
}

static int fetch(const struct arguments *arguments, const struct wanted *wanted,
                 const struct object_settings *settings, struct meter *meter, struct error *error)
{
    struct object_store store;
    struct object_checkpoint found;
    char size[FORMAT_SIZE], took[FORMAT_SIZE];
    const struct object_fetch_options options = {
        .prefix = settings->prefix,
        .job = wanted->job,
        .step = wanted->any ? UINT64_MAX : wanted->step,
        .any_up_to = wanted->any,
        .manifest_sha256 = wanted->manifest_sha256[0] ? wanted->manifest_sha256 : NULL,
        .to = arguments->operands[1],
        .watch = {.pause = wait_a_little,
                  .progress = meter_progress,
                  .trouble = say_trouble,
                  .context = meter},
    };
    int status = object_s3_open(settings, wanted->bucket, NULL, &store, error);

    if (status)
        return status;
    status = object_fetch(&store, &options, &found, error);
    object_s3_close(&store);
    if (status == -ENOENT && arguments_has(arguments, "bucket"))
        return error_set(error, status,
                         "%s has no such checkpoint of job %s; those of a job that is removed are "
                         "under JOB.ID, as the name of its checkpoint folder was",
                         wanted->bucket, wanted->job);
    if (!status)
        printf("the checkpoint of step %" PRIu64 " is in %s: %s in %s\n", found.step, options.to,
               size_words(found.size_bytes, size),
               format_duration((double)(clock_monotonic_ns() - meter->begun_ns) / 1e9, took));
    return status;
}

int run_checkpoint_fetch(const struct arguments *arguments, struct error *error)
{
    struct meter meter = meter_begin();
    struct wanted wanted = {.step = arguments_number(arguments, "step", 0),
                            .any = !arguments_has(arguments, "step")};
    AUTO_FREE struct object_settings *settings = calloc(1, sizeof(*settings));
    const char *file = getenv("FIRN_OBJECT_STORE");
    int status = settings ? 0 : -ENOMEM;

    file = arguments_text(arguments, "object-store", file ? file : OBJECT_SETTINGS_FILE);
    snprintf(wanted.job, sizeof(wanted.job), "%s", arguments->operands[0]);
    snprintf(wanted.bucket, sizeof(wanted.bucket), "%s", arguments_text(arguments, "bucket", ""));
    if (!status && !wanted.bucket[0])
        status = ask_cluster(arguments, &wanted, error);
    if (!status)
        status = object_settings_load(file, settings, error);
    if (!status)
        status = fetch(arguments, &wanted, settings, &meter, error);
    if (settings)
        object_settings_forget(settings);
    return status;
}
