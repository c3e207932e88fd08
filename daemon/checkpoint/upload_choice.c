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

static bool is_resting(const struct upload_view *view, const char *sha256)
{
    return upload_memory_rests(view->memory, sha256, view->now_ns);
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

static bool must_send(const struct upload_view *view, const char *job,
                      struct checkpoint_record *record)
{
    return newest(view, job, record) && is_ours(view, record) && !is_stored(view, job, record) &&
           !is_resting(view, record->manifest_sha256) &&
           strcmp(view->memory->sent_sha256, record->manifest_sha256) != 0;
}

/* ---- helping ---- */

/* Return whether another node uploads the checkpoint of @object and this node has a share of it. */
static bool can_help(const struct upload_view *view, const char *job,
                     const struct object_record *object, struct checkpoint_record *record)
{
    char key[KV_KEY_MAX];

    keys_checkpoint(key, view->cluster, job, object->step);
    return object->state == RECORD_UPLOADING && strcmp(object->node, view->node) != 0 &&
           strcmp(view->memory->helped_sha256, object->manifest_sha256) != 0 &&
           !is_resting(view, object->manifest_sha256) &&
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
