/* firnctl job submit: turn a file into a job of the cluster, in one transaction. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/plural.h"
#include "checkpoint/format/model_files.h"
#include "ctl/cluster/cluster.h"
#include "ctl/command/commands.h"
#include "ctl/job/job_data.h"
#include "ctl/job/job_file.h"
#include "ctl/job/job_freezing.h"
#include "ctl/job/job_from.h"
#include "ctl/job/job_model.h"
#include "ctl/job/job_settings.h"
#include "ctl/job/job_warnings.h"
#include "ctl/job/job_wish.h"
#include "ctl/report/watch.h"
#include "ctl/view/output.h"

/* The parts of a submission. */
struct submission {
    struct job_spec spec, origin; /* origin: the job of the checkpoint */
    struct desired_record desired;
    struct submission_record identity;
    bool begins_from;                    /* whether the job begins from a checkpoint */
    struct checkpoint_record checkpoint; /* that checkpoint, recorded with the job */
};

/* Load the job from the file, or without a file from the checkpoint; apply --set. */
static int load_spec(const struct arguments *arguments, struct submission *submission,
                     struct error *error)
{
    if (arguments->operand_count > 0)
        return job_file_load(arguments->operands[0], arguments, &submission->spec, error);
    if (!submission->begins_from)
        return error_set(error, COMMAND_USAGE, "job submit wants FILE, or --from PATH");
    submission->spec = submission->origin;
    return job_settings_apply(arguments, &submission->spec, error);
}

static int load_origin(const struct arguments *arguments, struct submission *submission,
                       struct error *error)
{
    const char *from = arguments_text(arguments, "from", NULL);

    submission->begins_from = from;
    return from ? job_from_load(from, &submission->checkpoint, &submission->origin, error) : 0;
}

/* Warn about settings that change the run: the user may intend them. */
static int check_origin(const struct submission *submission, struct error *error)
{
    char differences[ERROR_TEXT_SIZE];

    if (!submission->begins_from)
        return 0;
    int status = job_from_check(&submission->spec, &submission->origin, &submission->checkpoint,
                                differences, sizeof(differences), error);
    if (!status && differences[0])
        fprintf(stderr,
                "firnctl: warning: after step %" PRIu64
                " the numbers will differ from those of the run that wrote the checkpoint: %s\n",
                submission->checkpoint.step, differences);
    return status;
}

static int load(const struct arguments *arguments, struct submission *submission,
                struct error *error)
{
    const char *name = arguments_text(arguments, "name", NULL);
    struct job_spec *spec = &submission->spec;
    int status = load_origin(arguments, submission, error);

    if (!status)
        status = load_spec(arguments, submission, error);
    if (!status)
        status = check_origin(submission, error);
    if (status || !name)
        return status;
    if (!name_valid(name))
        return error_set(error, COMMAND_USAGE,
                         "--name: \"%s\" is not a name: up to 63 of a-z, 0-9, '.', '_', '-'", name);
    snprintf(spec->name, sizeof(spec->name), "%s", name);
    return 0;
}

/* Warn of a large file beside the model, which checkpoints and exports leave out. */
static void warn_of_large_companion(const struct job_model *model)
{
    AUTO_FREE struct model_files *companions = calloc(1, sizeof(*companions));

    if (companions && model->from[0] && !model_files_find(model->from, companions, NULL) &&
        companions->left_out[0])
        fprintf(stderr, "firnctl: warning: model.from %s: checkpoints go without %s\n", model->from,
                companions->left_out);
}

static void warn_of_little_data(const struct job_spec *spec)
{
    char words[JOB_DATA_WORDS_SIZE];
    struct job_data_extent data;

    if (job_data_hint(spec, words))
        fprintf(stderr, "firnctl: warning: %s\n", words);
    if (job_data_look(spec, &data) && job_data_is_little(&spec->model, &spec->train, &data))
        fprintf(stderr, "firnctl: warning: the data has %s\n",
                job_data_words(&spec->model, &spec->train, &data, words));
}

static void warn_of_freezing(const struct job_spec *spec)
{
    char words[JOB_FREEZING_WORDS_SIZE];

    if (job_freezing_hint(spec, words))
        fprintf(stderr, "firnctl: warning: %s\n", words);
    if (job_freezing_unused(spec, words))
        fprintf(stderr, "firnctl: warning: %s\n", words);
}

/* Skip a job that begins from a checkpoint: its model folder is not read. */
static int check_model(const struct submission *submission, struct error *error)
{
    char unread[ERROR_TEXT_SIZE] = "";
    int status = submission->begins_from ? 0 : job_model_check(&submission->spec, unread, error);

    if (!status && unread[0])
        fprintf(stderr,
                "firnctl: warning: model.from: %s (here; that is fine if firnd's user may read it "
                "on the nodes)\n",
                unread);
    return status;
}

/* Only warn if the cluster cannot run the job now; do not refuse the job if the cluster cannot be
 * loaded. */
static void warn_of_cluster(struct cluster_client *client,
                            const struct job_checkpoints *checkpoints,
                            const struct job_elasticity *elastic)
{
    CLEANUP(cluster_done) struct cluster cluster = {0};
    struct job_warnings warnings;
    struct error ignored = {0};

    if (cluster_load(client, &cluster, &ignored))
        return;
    job_warnings(&cluster, checkpoints, elastic, &warnings);
    for (unsigned i = 0; i < warnings.count; i++)
        fprintf(stderr, "firnctl: warning: %s\n", warnings.texts[i]);
}

/* The encoded records of a submission; the caller frees them. */
struct job_texts {
    char *spec, *desired, *identity, *checkpoint; /* checkpoint: NULL for none */
};

static void job_texts_done(struct job_texts *texts)
{
    free(texts->spec);
    free(texts->desired);
    free(texts->identity);
    free(texts->checkpoint);
}

static char *text_of(json_t *tree)
{
    char *text = tree ? json_text(tree) : NULL;

    json_decref(tree);
    return text;
}

/* Return the comparison that no such job exists. */
static struct kv_compare job_is_absent(const struct cluster_client *client, const char *job,
                                       char spec[KV_KEY_MAX])
{
    return (struct kv_compare){.key = keys_job(spec, client->cluster, job, "spec"),
                               .target = KV_CREATE_REVISION,
                               .value = 0};
}

/* Delete keys that an earlier job of this name has left: the new job would take them as its own. */
static int clear_away(struct cluster_client *client, const char *job, bool *ret_succeeded,
                      struct error *error)
{
    char spec[KV_KEY_MAX], keys[KV_KEY_MAX], said[KV_KEY_MAX];
    const struct kv_compare absent = job_is_absent(client, job, spec);
    const struct kv_operation operations[] = {
        {.type = KV_DELETE_PREFIX, .key = keys_job(keys, client->cluster, job, "")},
        {.type = KV_DELETE_PREFIX, .key = keys_said(said, client->cluster, job, "")},
    };

    return cluster_client_txn(client, &absent, 1, operations, ARRAY_COUNT(operations),
                              ret_succeeded, error);
}

/* Write the spec, the desired state and the checkpoint to begin from, if no such job exists. Delete
 * what a node may have written since clear_away(), for a job that was being removed. */
static int send_job(struct cluster_client *client, const struct submission *submission,
                    const struct job_texts *texts, bool *ret_succeeded, struct error *error)
{
    const char *job = submission->spec.name;
    char spec[KV_KEY_MAX], desired[KV_KEY_MAX], identity[KV_KEY_MAX], checkpoint[KV_KEY_MAX];
    char generation[KV_KEY_MAX], next[KV_KEY_MAX], said[KV_KEY_MAX];
    const struct kv_compare absent = job_is_absent(client, job, spec);
    const struct kv_operation operations[] = {
        {.type = KV_PUT, .key = spec, .value = texts->spec},
        {.type = KV_PUT,
         .key = keys_job(desired, client->cluster, job, "desired"),
         .value = texts->desired},
        {.type = KV_PUT,
         .key = keys_job(identity, client->cluster, job, "submission"),
         .value = texts->identity},
        {.type = KV_DELETE, .key = keys_job(generation, client->cluster, job, "generation")},
        {.type = KV_DELETE, .key = keys_job(next, client->cluster, job, "next")},
        {.type = KV_DELETE_PREFIX, .key = keys_said(said, client->cluster, job, "")},
        {.type = KV_PUT,
         .key = keys_checkpoint(checkpoint, client->cluster, job, submission->checkpoint.step),
         .value = texts->checkpoint},
    };
    size_t count = ARRAY_COUNT(operations) - !submission->begins_from;
    int status = clear_away(client, job, ret_succeeded, error);

    return status || !*ret_succeeded
               ? status
               : cluster_client_txn(client, &absent, 1, operations, count, ret_succeeded, error);
}

static int write_job(struct cluster_client *client, const struct submission *submission,
                     struct error *error)
{
    CLEANUP(job_texts_done)
    struct job_texts texts = {.spec = text_of(job_spec_encode(&submission->spec)),
                              .desired = text_of(desired_record_encode(&submission->desired)),
                              .identity = text_of(submission_record_encode(&submission->identity)),
                              .checkpoint =
                                  text_of(checkpoint_record_encode(&submission->checkpoint))};
    const char *name = submission->spec.name;
    bool succeeded = false;

    if (!texts.spec || !texts.desired || !texts.identity || !texts.checkpoint)
        return error_set(error, -ENOMEM, "no memory for the job");
    int status = send_job(client, submission, &texts, &succeeded, error);
    if (!status && !succeeded)
        status = error_set(error, -EEXIST,
                           "there is a job \"%s\" already; --name gives this one another name, "
                           "firnctl job remove %s frees it when that job is over",
                           name, name);
    return status;
}

static void say_submitted(const struct cluster_client *client, const struct submission *submission)
{
    const struct job_spec *spec = &submission->spec;

    printf("job %s is submitted to cluster %s: %u layer%s of width %u, %" PRIu64
           " step%s of %" PRIu64 " tokens\n",
           spec->name, client->cluster, spec->model.layers, plural(spec->model.layers),
           spec->model.width, spec->train.steps, plural(spec->train.steps),
           job_spec_tokens_per_step(&spec->model, &spec->train));
    if (submission->begins_from)
        printf("it goes on after step %" PRIu64 ", from %s\n", submission->checkpoint.step,
               submission->checkpoint.path);
}

static int say_json(const struct cluster_client *client, const struct submission *submission,
                    struct error *error)
{
    const struct job_spec *spec = &submission->spec;

    return output_json(json_pack("{s:s, s:s, s:I, s:I}", "job", spec->name, "cluster",
                                 client->cluster, "steps", (json_int_t)spec->train.steps,
                                 "from_step", (json_int_t)submission->checkpoint.step),
                       error);
}

/* Send all further output for users to standard error: standard output is one object, for a
 * program. */
static int speak_to_stderr(struct error *error)
{
    if (fflush(stdout) == 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
        return 0;
    return error_set(error, -errno, "writing to standard output: %s", strerror(errno));
}

/* Names of jobs are reused, and clusters share disks: the identity is unique. */
static int make_identity(struct submission_record *identity, struct error *error)
{
    uint32_t number;

    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return error_set(error, -EIO, "no random numbers from the kernel");
    snprintf(identity->id, sizeof(identity->id), "%08x", number);
    return 0;
}

int run_job_submit(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct submission *submission = calloc(1, sizeof(*submission));
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    bool wait = arguments_has(arguments, "wait");
    int status = submission ? load(arguments, submission, error) : -ENOMEM;

    if (!status) {
        submission->desired.wish = RECORD_RUNNING;
        status = job_wish_scale(arguments, &submission->spec.model, &submission->spec.train,
                                &submission->desired, error);
    }
    if (!status)
        status = check_model(submission, error);
    if (!status)
        status = make_identity(&submission->identity, error);
    if (!status)
        status = cluster_client_open(arguments, &client, error);
    if (status)
        return status;
    uint64_t begun_ns = clock_unix_ns();
    job_data_warn_missing(&submission->spec.data);
    warn_of_little_data(&submission->spec);
    warn_of_freezing(&submission->spec);
    warn_of_large_companion(&submission->spec.model);
    status = write_job(&client, submission, error);
    if (status)
        return status;
    warn_of_cluster(&client, &submission->spec.checkpoint, &submission->spec.elastic);
    if (arguments_has(arguments, "json"))
        status = say_json(&client, submission, error);
    else
        say_submitted(&client, submission);
    if (!status && wait && arguments_has(arguments, "json"))
        status = speak_to_stderr(error);
    return status || !wait ? status : watch_job(&client, submission->spec.name, begun_ns, error);
}
