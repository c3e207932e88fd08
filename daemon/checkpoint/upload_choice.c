#include "daemon/checkpoint/upload_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "daemon/core/checkpoint_entry.h"
#include "elastic/copies/copies.h"
#include "membership/kv/keys.h"

/* ---- records ---- */

static bool read_object(const struct mirror_entry *entry, struct object_record *ret_record)
{
    AUTO_JSON json_t *tree = NULL;

    return entry && !json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) &&
           !object_record_decode(tree, ret_record, NULL);
}

static bool read_sound(const struct mirror_entry *entry, struct checkpoint_record *ret_record)
{
    return checkpoint_entry_read(entry, ret_record) && !ret_record->damaged[0];
}

static bool is_registered(const struct upload_view *view, const char *node)
{
    char key[KV_KEY_MAX];

    return mirror_find(view->mirror, keys_node(key, view->cluster, node));
}

static bool is_resting(const struct upload_view *view, const char *job, const char *sha256)
{
    const struct upload_memory *memory = view->memory;

    return view->now_ns < memory->retry_at_ns && !strcmp(job, memory->failed_job) &&
           !strcmp(sha256, memory->failed_sha256);
}

/* ---- sending ---- */

static bool is_ours(const struct upload_view *view, const struct checkpoint_record *record)
{
    return !strcmp(record->node, view->node) || (view->leads && !is_registered(view, record->node));
}

static bool is_stored(const struct upload_view *view, const char *job,
                      const struct checkpoint_record *record)
{
    char key[KV_KEY_MAX];
    struct object_record object;

    keys_object(key, view->cluster, job, record->step);
    return read_object(mirror_find(view->mirror, key), &object) &&
           object.state == RECORD_COMPLETE &&
           !strcmp(object.manifest_sha256, record->manifest_sha256);
}

static bool newest(const struct upload_view *view, const char *job,
                   struct checkpoint_record *ret_record)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(view->mirror, keys_job(prefix, view->cluster, job, "checkpoints/"), &entries);

    while (count-- > 0)
        if (read_sound(&entries[count], ret_record))
            return true;
    return false;
}

static bool has_sent(const struct upload_view *view, const char *job, const char *sha256)
{
    return !strcmp(job, view->memory->sent_job) && !strcmp(sha256, view->memory->sent_sha256);
}

static bool must_send(const struct upload_view *view, const char *job,
                      struct checkpoint_record *record)
{
    return newest(view, job, record) && is_ours(view, record) && !is_stored(view, job, record) &&
           !is_resting(view, job, record->manifest_sha256) &&
           !has_sent(view, job, record->manifest_sha256);
}

/* ---- helping ---- */

static bool has_helped(const struct upload_view *view, const char *job, const char *sha256)
{
    return !strcmp(job, view->memory->helped_job) && !strcmp(sha256, view->memory->helped_sha256);
}

/* Return whether another node uploads the checkpoint of @object and this node has a share of it. */
static bool can_help(const struct upload_view *view, const char *job,
                     const struct object_record *object, struct checkpoint_record *record)
{
    char key[KV_KEY_MAX];

    keys_checkpoint(key, view->cluster, job, object->step);
    return object->state == RECORD_UPLOADING && strcmp(object->node, view->node) != 0 &&
           !has_helped(view, job, object->manifest_sha256) &&
           !is_resting(view, job, object->manifest_sha256) &&
           read_sound(mirror_find(view->mirror, key), record) &&
           !strcmp(record->manifest_sha256, object->manifest_sha256) &&
           copies_has(record->shares, view->node);
}

static bool must_help(const struct upload_view *view, const char *job,
                      struct checkpoint_record *record)
{
    const struct mirror_entry *entries;
    struct object_record object;
    char prefix[KV_KEY_MAX];
    size_t count =
        mirror_range(view->mirror, keys_job(prefix, view->cluster, job, "objects/"), &entries);

    while (count-- > 0)
        if (read_object(&entries[count], &object) && can_help(view, job, &object, record))
            return true;
    return false;
}

enum upload_role upload_choose(const struct upload_view *view, const char *job,
                               struct checkpoint_record *ret_record)
{
    CLEANUP(checkpoint_record_done) struct checkpoint_record record = {0};
    enum upload_role role = UPLOAD_NOTHING;
    char key[KV_KEY_MAX];

    if (!mirror_find(view->mirror, keys_job(key, view->cluster, job, "spec")))
        return UPLOAD_NOTHING;
    if (must_send(view, job, &record))
        role = UPLOAD_SENDS;
    else if (must_help(view, job, &record))
        role = UPLOAD_HELPS;
    if (role != UPLOAD_NOTHING) {
        *ret_record = record;
        record.shares = NULL; /* owned by the caller now */
    }
    return role;
}

/* ---- trying ---- */

bool upload_will_send(const struct plan *plan, const char *node)
{
    unsigned senders =
        plan_keeps_copies(plan) ? plan->layout.worker_count : MIN(plan->layout.worker_count, 1u);

    for (unsigned rank = 0; rank < senders; rank++)
        if (!strcmp(plan->layout.workers[rank].node, node))
            return true;
    return false;
}

/* ---- results ---- */

bool upload_failed(struct upload_memory *memory, const char *job, const char *manifest_sha256,
                   uint64_t retry_at_ns)
{
    bool again =
        !strcmp(memory->failed_job, job) && !strcmp(memory->failed_sha256, manifest_sha256);

    snprintf(memory->failed_job, sizeof(memory->failed_job), "%s", job);
    snprintf(memory->failed_sha256, sizeof(memory->failed_sha256), "%s", manifest_sha256);
    memory->retry_at_ns = retry_at_ns;
    return again;
}

void upload_succeeded(struct upload_memory *memory, enum upload_role role, const char *job,
                      const char *manifest_sha256)
{
    bool helps = role == UPLOAD_HELPS;

    memory->failed_job[0] = '\0';
    snprintf(helps ? memory->helped_job : memory->sent_job, NAME_SIZE, "%s", job);
    snprintf(helps ? memory->helped_sha256 : memory->sent_sha256, RECORD_DIGEST_SIZE, "%s",
             manifest_sha256);
}
