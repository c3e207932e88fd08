/* firnctl job submit: from a file to a job of the cluster, in one transaction. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "ctl/cluster.h"
#include "ctl/commands.h"
#include "ctl/job_file.h"
#include "ctl/job_from.h"
#include "ctl/job_settings.h"
#include "ctl/job_wish.h"
#include "ctl/output.h"
#include "ctl/watch.h"

static int load(const struct arguments *arguments, struct job_spec *spec, struct error *error)
{
    const char *name = arguments_text(arguments, "name", NULL);
    int status = job_file_load(arguments->operands[0], spec, error);

    if (!status)
        status = job_settings_apply(arguments, spec, error);
    if (status || !name)
        return status;
    if (!name_valid(name))
        return error_set(error, -EINVAL,
                         "--name: \"%s\" is not a name: up to 63 of a-z, 0-9, '.', '_', '-'", name);
    snprintf(spec->name, sizeof(spec->name), "%s", name);
    return 0;
}

/* The data must be on the nodes; here it need not be, so its absence is only worth a word. */
static void warn_missing_data(const struct job_spec *spec)
{
    for (unsigned i = 0; i < spec->data.path_count; i++) {
        char fixed[JOB_PATH_SIZE];
        size_t plain = strcspn(spec->data.paths[i], "*?[");
        snprintf(fixed, sizeof(fixed), "%.*s", (int)plain, spec->data.paths[i]);
        char *slash = strrchr(fixed, '/');
        if (spec->data.paths[i][plain] && slash && slash != fixed)
            *slash = '\0'; /* the folder that a glob begins in */
        if (access(fixed, R_OK))
            fprintf(stderr, "firnctl: warning: %s: %s (here; that is fine if the nodes have it)\n",
                    fixed, strerror(errno));
    }
}

/*
 * The spec and the first wish, if no such job exists. What a node may still have written about an
 * earlier job of this name while that was being removed goes with it.
 */
struct job_texts {
    char *spec, *desired;
    char *checkpoint; /* NULL: from step 0 */
    uint64_t checkpoint_step;
};

static int send_job(struct store *store, const char *job, const struct job_texts *texts,
                    bool *ret_succeeded, struct error *error)
{
    static const char *const stale[] = {"state", "progress", "generation", "next"};
    char keys[3 + ARRAY_COUNT(stale)][KV_KEY_MAX];
    struct kv_operation operations[ARRAY_COUNT(keys)];
    size_t count = 2;
    const struct kv_compare absent = {.key = keys_job(keys[0], store->cluster, job, "spec"),
                                      .target = KV_CREATE_REVISION,
                                      .value = 0};

    operations[0] = (struct kv_operation){.type = KV_PUT, .key = keys[0], .value = texts->spec};
    operations[1] = (struct kv_operation){.type = KV_PUT,
                                          .key = keys_job(keys[1], store->cluster, job, "desired"),
                                          .value = texts->desired};
    for (size_t i = 0; i < ARRAY_COUNT(stale); i++, count++)
        operations[count] = (struct kv_operation){
            .type = KV_DELETE, .key = keys_job(keys[count], store->cluster, job, stale[i])};
    if (texts->checkpoint) {
        operations[count] = (struct kv_operation){
            .type = KV_PUT,
            .key = keys_checkpoint(keys[count], store->cluster, job, texts->checkpoint_step),
            .value = texts->checkpoint};
        count++;
    }
    return store_txn(store, &absent, 1, operations, count, ret_succeeded, error);
}

static char *text_of(json_t *tree)
{
    char *text = tree ? json_text(tree) : NULL;

    json_decref(tree);
    return text;
}

/* @from: NULL, or where it begins. */
static int write_job(struct store *store, const struct job_spec *spec,
                     const struct desired_record *desired, const struct checkpoint_record *from,
                     struct error *error)
{
    AUTO_FREE char *spec_text = text_of(job_spec_encode(spec));
    AUTO_FREE char *desired_text = text_of(desired_record_encode(desired));
    AUTO_FREE char *from_text = from ? text_of(checkpoint_record_encode(from)) : NULL;
    const struct job_texts texts = {spec_text, desired_text, from_text, from ? from->step : 0};
    bool succeeded = false;

    if (!spec_text || !desired_text || (from && !from_text))
        return error_set(error, -ENOMEM, "no memory for the job");
    int status = send_job(store, spec->name, &texts, &succeeded, error);
    if (!status && !succeeded)
        status = error_set(error, -EEXIST,
                           "there is a job \"%s\" already; --name gives this one another name, "
                           "firnctl job remove %s frees it when that job is over",
                           spec->name, spec->name);
    return status;
}

static void say_submitted(const struct store *store, const struct job_spec *spec)
{
    printf("job %s is submitted to cluster %s: %u layers of width %u, %" PRIu64 " steps of %" PRIu64
           " tokens\n",
           spec->name, store->cluster, spec->model.layers, spec->model.width, spec->train.steps,
           job_spec_tokens_per_step(spec));
}

int run_job_submit(const struct arguments *arguments, struct error *error)
{
    AUTO_FREE struct job_spec *spec = calloc(1, sizeof(*spec));
    CLEANUP(store_close) struct store store = {0};
    struct desired_record desired = {.wish = RECORD_RUNNING};
    struct checkpoint_record checkpoint;
    const char *from = arguments_text(arguments, "from", NULL);
    bool json = arguments_has(arguments, "json"), wait = arguments_has(arguments, "wait");
    int status = spec ? load(arguments, spec, error) : -ENOMEM;

    if (!status)
        status = job_wish_scale(arguments, spec, &desired, error);
    if (!status && from)
        status = job_from_checkpoint(from, spec, &checkpoint, error);
    if (!status)
        status = store_open(arguments, &store, error);
    if (status)
        return status;
    uint64_t begun_ns = clock_real()->realtime_ns(clock_real()->context);
    warn_missing_data(spec);
    status = write_job(&store, spec, &desired, from ? &checkpoint : NULL, error);
    if (status)
        return status;
    if (json)
        status = output_json(json_pack("{s:s, s:s, s:I}", "job", spec->name, "cluster",
                                       store.cluster, "steps", (json_int_t)spec->train.steps),
                             error);
    else
        say_submitted(&store, spec);
    return status || !wait ? status : watch_job(&store, spec->name, begun_ns, error);
}
