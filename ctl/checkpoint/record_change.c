#include "ctl/checkpoint/record_change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "checkpoint/format/folder_marks.h"
#include "checkpoint/replicate/copy_place.h"
#include "ctl/cluster/cluster_client.h"

struct changing {
    const struct checkpoint_place *place;
    void (*change)(struct checkpoint_record *record, const void *context);
    const void *context;
    char *text;
    int64_t revision;
};

static int take_record(void *context, const struct kv_result *result, struct error *error)
{
    struct changing *changing = context;
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
    AUTO_JSON json_t *tree = NULL;
    AUTO_JSON json_t *changed = NULL;

    if (!result->entry_count)
        return error_set(error, -ENOENT, "its record is gone: retention has removed it");
    const struct kv_entry *entry = &result->entries[0];
    int status = json_parse(entry->value, entry->value_bytes, entry->key, &tree, error);
    if (!status)
        status = checkpoint_record_decode(tree, &record, error);
    if (status)
        return status;
    if (strcmp(record.manifest_sha256, changing->place->manifest_sha256) != 0)
        return error_set(error, -EAGAIN,
                         "the checkpoint was written anew during this command; try again");
    changing->change(&record, changing->context);
    changed = checkpoint_record_encode(&record);
    changing->text = changed ? json_text(changed) : NULL;
    changing->revision = entry->mod_revision;
    return changing->text ? 0 : error_set(error, -ENOMEM, "no memory for a record");
}

int record_change(const struct arguments *arguments, const struct checkpoint_place *place,
                  void (*change)(struct checkpoint_record *record, const void *context),
                  const void *context, struct error *error)
{
    CLEANUP(cluster_client_close) struct cluster_client client = {0};
    struct changing changing = {.place = place, .change = change, .context = context};
    char key[KV_KEY_MAX];
    bool succeeded = false;
    int status = cluster_client_open(arguments, &client, error);

    if (status)
        return status;
    keys_checkpoint(key, client.cluster, place->job, place->step);
    status = cluster_client_range(&client, key, false, take_record, &changing, error);
    if (status)
        return status;
    const struct kv_compare compare = {
        .key = key, .target = KV_MOD_REVISION, .value = changing.revision};
    const struct kv_operation operation = {.type = KV_PUT, .key = key, .value = changing.text};
    status = cluster_client_txn(&client, &compare, 1, &operation, 1, &succeeded, error);
    free(changing.text);
    if (!status && !succeeded)
        status = error_set(error, -EAGAIN, "its record was changed just now; try again");
    return status;
}

static void set_damage(struct checkpoint_record *record, const void *why)
{
    snprintf(record->damaged, sizeof(record->damaged), "%s", (const char *)why);
}

static void note(const struct arguments *arguments, const struct checkpoint_place *place,
                 const char *why)
{
    struct error error = {0};

    if (record_change(arguments, place, set_damage, why, &error))
        fprintf(stderr,
                "firnctl: warning: the record of the checkpoint of step %" PRIu64
                " could not be changed: %s\n",
                place->step, error.text);
}

/* Mark the folder damaged, so that no later checkpoint shares its files. A failed write is not an
 * error: a user with only read access can verify too. */
static void mark_folder(const struct checkpoint_place *place)
{
    struct error error = {0};

    if (checkpoint_mark_damaged(place->path, &error) && error.code != -ENOENT &&
        error.code != -EBADMSG)
        fprintf(stderr, "firnctl: warning: it cannot be marked as damaged: %s\n", error.text);
}

void record_note_damage(const struct arguments *arguments, const struct checkpoint_place *place,
                        int status, const char *why)
{
    bool lost = place->remote ? status == -EBADMSG : checkpoint_is_lost(place->path, status);

    if (lost && !place->remote)
        mark_folder(place);
    if (place->job[0] && lost && strcmp(place->damaged, why) != 0)
        note(arguments, place, why[0] ? why : "it is damaged");
}

void record_note_sound(const struct arguments *arguments, const struct checkpoint_place *place)
{
    if (place->job[0] && place->damaged[0])
        note(arguments, place, "");
}
