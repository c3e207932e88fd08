#include "daemon/checkpoint/download_choice.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "membership/kv/keys.h"

static bool decode_object(const struct mirror_entry *entry, struct object_record *ret_record)
{
    AUTO_JSON json_t *tree = NULL;

    return !json_parse(entry->value, strlen(entry->value), entry->key, &tree, NULL) &&
           !object_record_decode(tree, ret_record, NULL);
}

/* Find the newest complete object that is not known to be bad, if it is later than the nodes'
 * checkpoints. */
static bool find_object(const struct download_view *view, struct object_record *ret_object,
                        int64_t *ret_revision)
{
    const struct mirror_entry *entries;
    char prefix[KV_KEY_MAX];
    size_t count = mirror_range(view->mirror,
                                keys_job(prefix, view->cluster, view->job, "objects/"), &entries);

    while (count-- > 0)
        if (!refused_unasked(&view->memory->refused, entries[count].mod_revision) &&
            decode_object(&entries[count], ret_object) && ret_object->state == RECORD_COMPLETE) {
            *ret_revision = entries[count].mod_revision;
            return ret_object->step > view->own_step;
        }
    return false;
}

enum download_action download_choose(const struct download_view *view,
                                     struct object_record *ret_object, int64_t *ret_revision)
{
    struct object_record object;
    int64_t revision;
    bool ours = strcmp(view->busy_with, view->job) == 0;
    bool rests = strcmp(view->memory->failed_job, view->job) == 0 &&
                 view->now_ns < view->memory->retry_at_ns;

    if (!find_object(view, &object, &revision) || (rests && view->own_step > 0))
        return DOWNLOAD_GO_ON;
    *ret_object = object;
    *ret_revision = revision;
    if (ours || (rests && view->busy_with[0] == '\0'))
        return DOWNLOAD_WAIT;
    return view->busy_with[0] != '\0' ? DOWNLOAD_QUEUED : DOWNLOAD_BEGIN;
}

bool download_is_lost(int status)
{
    return status == -EBADMSG || status == -ENOENT;
}
