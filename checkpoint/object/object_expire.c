/* Retention in the store. The manifest goes first: what has none is no checkpoint any more. */
#include <errno.h>
#include <string.h>

#include "checkpoint/object/object_catalog.h"
#include "checkpoint/object/object_send.h"

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static int remove_all(const struct object_store *store, const struct object_list *list,
                      const struct object_checkpoint *checkpoint, struct error *error)
{
    char manifest[OBJECT_KEY_SIZE];
    object_file_key(checkpoint->folder, MANIFEST_NAME, manifest);
    int r = checkpoint->complete ? store->remove(store->context, manifest, error) : 0;
    for (size_t i = 0; r == 0 && i < list->count; i++)
        if (begins_with(list->items[i].key, checkpoint->folder) &&
            strcmp(list->items[i].key, manifest) != 0)
            r = store->remove(store->context, list->items[i].key, error);
    return r;
}

static int remove_expired(const struct object_store *store, const struct object_list *list,
                          const struct object_catalog *catalog, uint64_t step, const char *id,
                          unsigned keep, uint64_t *ret_oldest, struct error *error)
{
    int r = 0;
    *ret_oldest = step;
    for (size_t i = catalog->count; r == 0 && i-- > 0;) {
        const struct object_checkpoint *checkpoint = &catalog->checkpoints[i];
        if (object_catalog_expired(catalog, i, step, id, keep))
            r = remove_all(store, list, checkpoint, error);
        else if (checkpoint->complete)
            *ret_oldest = MIN(*ret_oldest, checkpoint->step);
    }
    return r;
}

/* The step of "<job prefix>0000000120-..."; false: not ours */
static bool step_of(const char *key, const char *job_prefix, uint64_t *ret_step)
{
    if (!begins_with(key, job_prefix))
        return false;
    const char *digits = key + strlen(job_prefix);
    size_t length = strspn(digits, "0123456789");
    if (length < 10 || length > 19 || digits[length] != '-')
        return false;
    *ret_step = strtoull(digits, NULL, 10);
    return true;
}

static int give_up_begun(const struct object_store *store, const char *job_prefix, uint64_t step,
                         struct error *error)
{
    struct object_list uploads = {0};
    int r = store->list_uploads(store->context, job_prefix, &uploads, error);
    for (size_t i = 0; r == 0 && i < uploads.count; i++) {
        uint64_t of;
        if (step_of(uploads.items[i].key, job_prefix, &of) && of <= step)
            r = store->give_up(store->context, uploads.items[i].key, uploads.items[i].tag, error);
    }
    object_list_done(&uploads);
    return r;
}

int object_expire(const struct object_store *store, const char *prefix, const char *job,
                  uint64_t step, const char *manifest_sha256, unsigned keep, uint64_t *ret_oldest,
                  struct error *error)
{
    char job_prefix[OBJECT_KEY_SIZE], id[OBJECT_ID_SIZE] = "";
    struct object_list list = {0};
    struct object_catalog catalog = {0};
    memcpy(id, manifest_sha256, MIN(strlen(manifest_sha256), sizeof(id) - 1));
    int r = object_job_prefix(prefix, job, job_prefix);
    if (r != 0)
        return error_set(error, r, "the prefix and the job's name are too long for a key");
    r = store->list(store->context, job_prefix, &list, error);
    if (r == 0 && (r = object_catalog_make(&list, job_prefix, &catalog)) != 0)
        error_set(error, r, "no memory to look at the store's checkpoints");
    if (r == 0)
        r = remove_expired(store, &list, &catalog, step, id, keep, ret_oldest, error);
    if (r == 0)
        r = give_up_begun(store, job_prefix, step, error);
    object_catalog_done(&catalog);
    object_list_done(&list);
    return r;
}
