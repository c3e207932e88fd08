/* Retention in the store. The manifest is removed first, because a folder without a manifest is not
 * a checkpoint. */
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
    int status = checkpoint->complete ? store->remove(store->context, manifest, error) : 0;
    for (size_t i = 0; status == 0 && i < list->count; i++)
        if (begins_with(list->items[i].key, checkpoint->folder) &&
            strcmp(list->items[i].key, manifest) != 0)
            status = store->remove(store->context, list->items[i].key, error);
    return status;
}

static int remove_expired(const struct object_store *store, const struct object_list *list,
                          const struct object_catalog *catalog, uint64_t step, const char *id,
                          unsigned keep, uint64_t *ret_oldest, struct error *error)
{
    int status = 0;
    *ret_oldest = step;
    for (size_t i = catalog->count; status == 0 && i-- > 0;) {
        const struct object_checkpoint *checkpoint = &catalog->checkpoints[i];
        if (object_catalog_expired(catalog, i, step, id, keep))
            status = remove_all(store, list, checkpoint, error);
        else if (checkpoint->complete)
            *ret_oldest = MIN(*ret_oldest, checkpoint->step);
    }
    return status;
}

/* Parse the step of "<job prefix>0000000120-..."; false: foreign key */
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
    int status = store->list_uploads(store->context, job_prefix, &uploads, error);
    for (size_t i = 0; status == 0 && i < uploads.count; i++) {
        uint64_t of;
        if (step_of(uploads.items[i].key, job_prefix, &of) && of <= step)
            status =
                store->give_up(store->context, uploads.items[i].key, uploads.items[i].tag, error);
    }
    object_list_done(&uploads);
    return status;
}

int object_expire(const struct object_store *store, const char *prefix, const char *job,
                  uint64_t step, const char *manifest_sha256, unsigned keep, uint64_t *ret_oldest,
                  struct error *error)
{
    char job_prefix[OBJECT_KEY_SIZE], id[OBJECT_ID_SIZE] = "";
    struct object_list list = {0};
    struct object_catalog catalog = {0};
    memcpy(id, manifest_sha256, MIN(strlen(manifest_sha256), sizeof(id) - 1));
    int status = object_job_prefix(prefix, job, job_prefix);
    if (status != 0)
        return error_set(error, status, "the prefix and the job's name are too long for a key");
    status = store->list(store->context, job_prefix, &list, error);
    if (status == 0 && (status = object_catalog_make(&list, job_prefix, &catalog)) != 0)
        error_set(error, status, "no memory to look at the store's checkpoints");
    if (status == 0)
        status = remove_expired(store, &list, &catalog, step, id, keep, ret_oldest, error);
    if (status == 0)
        status = give_up_begun(store, job_prefix, step, error);
    object_catalog_done(&catalog);
    object_list_done(&list);
    return status;
}
