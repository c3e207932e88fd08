/* firnctl job scale, pause, resume, cancel and remove. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/checkpoint/checkpoint_left.h"
#include "ctl/cluster/cluster.h"
#include "ctl/command/commands.h"
#include "ctl/job/job_fit.h"
#include "ctl/job/job_wish.h"

struct change {
    const struct arguments *arguments;
    const struct cluster *cluster;
    const struct cluster_job *job;
    enum record_wish wish;
    bool is_so; /* the change was requested already */
};

static int change_scale(void *context, struct desired_record *desired, struct error *error)
{
    const struct change *change = context;
    int status = job_wish_scale(change->arguments, &change->job->spec->model,
                                &change->job->spec->train, desired, error);

    return status ? status : job_fit(change->cluster, change->job->spec, desired, error);
}

static int change_wish(void *context, struct desired_record *desired, struct error *error)
{
    struct change *change = context;

    (void)error;
    change->is_so = desired->wish == change->wish;
    desired->wish = change->wish;
    return 0;
}

/* Print the state that was requested already, and its progress. */
static void say_that_it_is_so(const struct change *change)
{
    static const char *const asked[] = {
        [RECORD_RUNNING] = "to run", [RECORD_PAUSED] = "to pause", [RECORD_CANCELLED] = "to end"};
    char words[RECORD_TEXT_SIZE + 64];

    cluster_job_words(change->job, words, sizeof(words));
    printf("job %s was already asked %s: it is %s\n", change->job->name, asked[change->wish],
           words);
}

static int apply(const struct arguments *arguments, enum record_wish wish,
                 int (*how)(void *context, struct desired_record *desired, struct error *error),
                 const char *said, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    const char *name = arguments->operands[0];
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    struct change change = {.arguments = arguments, .cluster = &cluster, .wish = wish};
    change.job = cluster_find_job(&cluster, name, error);
    if (!change.job)
        return -ENOENT;
    status = cluster_job_check_open(change.job, error);
    if (!status)
        status = job_wish_change(&client, name, how, &change, error);
    if (!status && change.is_so)
        say_that_it_is_so(&change);
    else if (!status)
        printf("job %s %s\n", name, said);
    if (!status && !cluster.leader[0])
        printf("No firnd leads cluster %s now: the job stays as it is until one starts\n",
               client.cluster);
    return status;
}

int run_job_scale(const struct arguments *arguments, struct error *error)
{
    if (!arguments_has(arguments, "devices") && !arguments_has(arguments, "stages") &&
        !arguments_has(arguments, "replicas")) {
        error_set(error, -EINVAL, "job scale wants --devices, --stages or --replicas");
        return COMMAND_USAGE;
    }
    return apply(arguments, RECORD_RUNNING, change_scale,
                 "changes its layout when the step ends, or sooner if the step is long", error);
}

int run_job_pause(const struct arguments *arguments, struct error *error)
{
    return apply(
        arguments, RECORD_PAUSED, change_wish,
        "pauses: it checkpoints when the step ends, or leaves a long one, and frees its slots",
        error);
}

int run_job_resume(const struct arguments *arguments, struct error *error)
{
    return apply(arguments, RECORD_RUNNING, change_wish, "goes on as soon as there are slots",
                 error);
}

int run_job_cancel(const struct arguments *arguments, struct error *error)
{
    return apply(arguments, RECORD_CANCELLED, change_wish,
                 "is cancelled; its checkpoints and metrics stay", error);
}

/* ---- remove ---- */

/* Delete all keys of the job at once, and only if it is still the job that was found to be over. */
static int remove_keys(struct cluster_client *client, const struct cluster_job *job,
                       struct error *error)
{
    char spec[KV_KEY_MAX], desired[KV_KEY_MAX], state[KV_KEY_MAX], generation[KV_KEY_MAX];
    char next[KV_KEY_MAX], keys[KV_KEY_MAX], said[KV_KEY_MAX];
    const struct kv_compare compares[] = {
        {.key = keys_job(spec, client->cluster, job->name, "spec"),
         .target = KV_MOD_REVISION,
         .value = job->revisions.spec},
        {.key = keys_job(desired, client->cluster, job->name, "desired"),
         .target = KV_MOD_REVISION,
         .value = job->revisions.desired},
        {.key = keys_said(state, client->cluster, job->name, "state"),
         .target = KV_MOD_REVISION,
         .value = job->revisions.state},
        {.key = keys_job(generation, client->cluster, job->name, "generation"),
         .target = KV_MOD_REVISION,
         .value = job->revisions.generation},
        {.key = keys_job(next, client->cluster, job->name, "next"),
         .target = KV_MOD_REVISION,
         .value = job->revisions.next},
    };
    const struct kv_operation operations[] = {
        {.type = KV_DELETE_PREFIX, .key = keys_job(keys, client->cluster, job->name, "")},
        {.type = KV_DELETE_PREFIX, .key = keys_said(said, client->cluster, job->name, "")},
    };
    bool succeeded = false;
    int status = cluster_client_txn(client, compares, ARRAY_COUNT(compares), operations,
                                    ARRAY_COUNT(operations), &succeeded, error);

    if (!status && !succeeded)
        status = error_set(error, -EBUSY,
                           "job %s changed while it was being removed, and stays: firnctl job show "
                           "%s says what it is now",
                           job->name, job->name);
    return status;
}

/* Return whether the job has no workers: no leader has planned for it, and there is none now. */
static bool never_began(const struct cluster *cluster, const struct cluster_job *job)
{
    return !cluster->leader[0] && !job->revisions.generation && !job->revisions.next;
}

int run_job_remove(const struct arguments *arguments, struct error *error)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    const char *name = arguments->operands[0];
    int status = cluster_open(arguments, &client, &cluster, error);

    if (status)
        return status;
    const struct cluster_job *job = cluster_find_job(&cluster, name, error);
    if (!job)
        return -ENOENT;
    bool cancelled = job->desired.wish == RECORD_CANCELLED;
    bool is_over = cluster_job_over(job) || (cancelled && never_began(&cluster, job));
    if (!is_over && cancelled && !cluster.leader[0])
        return error_set(error, -EBUSY,
                         "job %s is being cancelled (%s), and no firnd leads cluster %s: its "
                         "workers end when one starts",
                         name, cluster_job_state(job), client.cluster);
    if (!is_over && cancelled)
        return error_set(error, -EBUSY, "job %s is being cancelled (%s); try again in a moment",
                         name, cluster_job_state(job));
    if (!is_over)
        return error_set(error, -EBUSY,
                         "job %s is not over (%s); firnctl job cancel %s comes first", name,
                         cluster_job_state(job), name);
    status = remove_keys(&client, job, error);
    if (status)
        return status;
    if (arguments_has(arguments, "purge"))
        return checkpoint_left_purge(job, error);
    printf("job %s is removed; its checkpoints and metrics stay on the disks\n", name);
    checkpoint_left_tell(job);
    return 0;
}
