#include "ctl/job/job_wish.h"

#include <errno.h>

#include "base/json.h"
#include "base/plural.h"

#define ATTEMPTS_MAX 5

int job_wish_scale(const struct arguments *arguments, const struct job_model *model,
                   const struct job_training *training, struct desired_record *desired,
                   struct error *error)
{
    unsigned devices = (unsigned)arguments_number(arguments, "devices", 0);
    unsigned stages = (unsigned)arguments_number(arguments, "stages", 0);
    unsigned replicas = (unsigned)arguments_number(arguments, "replicas", 0);
    unsigned units = job_model_unit_count(model);

    if (stages > units)
        return error_set(error, COMMAND_USAGE,
                         "--stages: the model has %u units, so at most %u stages", units, units);
    if (replicas > training->lanes)
        return error_set(error, COMMAND_USAGE,
                         "--replicas: the job has %u lane%s (train.lanes), so at most %u replica%s",
                         training->lanes, plural(training->lanes), training->lanes,
                         plural(training->lanes));
    if (devices && (uint64_t)MAX(stages, 1u) * MAX(replicas, 1u) > devices)
        return error_set(error, COMMAND_USAGE,
                         "%u stage%s x %u replica%s need %u slots, more than --devices %u",
                         MAX(stages, 1u), plural(MAX(stages, 1u)), MAX(replicas, 1u),
                         plural(MAX(replicas, 1u)), MAX(stages, 1u) * MAX(replicas, 1u), devices);
    desired->devices = devices;
    desired->stages = stages;
    desired->replicas = replicas;
    return 0;
}

struct current {
    struct desired_record desired;
    int64_t revision; /* 0: the key is absent */
};

static int take_current(void *context, const struct kv_result *result, struct error *error)
{
    struct current *current = context;
    AUTO_JSON json_t *tree = NULL;

    *current = (struct current){0};
    if (!result->entry_count)
        return 0;
    const struct kv_entry *entry = &result->entries[0];
    current->revision = entry->mod_revision;
    int status = json_parse(entry->value, entry->value_bytes, entry->key, &tree, error);
    return status ? status : desired_record_decode(tree, &current->desired, error);
}

static int write_wish(struct cluster_client *client, const char *job, const struct current *current,
                      bool *ret_succeeded, struct error *error)
{
    char desired_key[KV_KEY_MAX];
    AUTO_JSON json_t *tree = desired_record_encode(&current->desired);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    if (!text)
        return error_set(error, -ENOMEM, "no memory");
    keys_job(desired_key, client->cluster, job, "desired");
    const struct kv_compare compare = {
        .key = desired_key, .target = KV_MOD_REVISION, .value = current->revision};
    const struct kv_operation operation = {.type = KV_PUT, .key = desired_key, .value = text};
    return cluster_client_txn(client, &compare, 1, &operation, 1, ret_succeeded, error);
}

int job_wish_change(struct cluster_client *client, const char *job,
                    int (*change)(void *context, struct desired_record *desired,
                                  struct error *error),
                    void *context, struct error *error)
{
    char key[KV_KEY_MAX];

    keys_job(key, client->cluster, job, "desired");
    for (unsigned attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        struct current current;
        bool succeeded = false;
        int status = cluster_client_range(client, key, false, take_current, &current, error);
        if (!status)
            status = change(context, &current.desired, error);
        if (!status)
            status = write_wish(client, job, &current, &succeeded, error);
        if (status || succeeded)
            return status;
    }
    return error_set(error, -EAGAIN, "another firnctl is changing job %s right now; try again",
                     job);
}
