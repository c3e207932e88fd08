#include "checkpoint/object/object_try.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/object/object_catalog.h"

#define TRY_NAME "try"

static int put_and_remove(const struct object_store *store, const char *key, struct error *error)
{
    static const char content[] = "firn looks whether it may write here\n";
    struct error why = {0};
    int status = store->put(store->context, key, content, strlen(content),
                            hash_crc32c(0, content, strlen(content)), error);
    if (status == 0 && store->remove(store->context, key, &why) != 0)
        log_warning("old checkpoints will stay in the object store: %s", why.text);
    return status;
}

int object_try(const struct object_store *store, const char *prefix, const char *job,
               struct error *error)
{
    char key[OBJECT_KEY_SIZE];
    struct object_list list = {0};
    if (object_job_prefix(prefix, job, key) != 0 || strlen(key) + sizeof(TRY_NAME) > sizeof(key))
        return error_set(error, -ENAMETOOLONG, "the prefix of the object store is too long");
    int status = store->list(store->context, key, &list, error);
    object_list_done(&list);
    strcat(key, TRY_NAME);
    return status != 0 ? status : put_and_remove(store, key, error);
}
