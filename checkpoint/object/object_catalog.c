#include "checkpoint/object/object_catalog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/format/folder.h"

#define STEP_WORD "step-"

int object_job_prefix(const char *prefix, const char *job, char ret_key[OBJECT_KEY_SIZE])
{
    int length = snprintf(ret_key, OBJECT_KEY_SIZE, "%s%s%s/" STEP_WORD, prefix,
                          prefix[0] != '\0' ? "/" : "", job);
    return length < OBJECT_KEY_SIZE ? 0 : -ENAMETOOLONG;
}

int object_folder(const char *prefix, const char *job, uint64_t step, const char *manifest_sha256,
                  char ret_key[OBJECT_KEY_SIZE])
{
    char start[OBJECT_KEY_SIZE];
    int status = object_job_prefix(prefix, job, start);
    if (status != 0)
        return status;
    int length =
        snprintf(ret_key, OBJECT_KEY_SIZE, "%s%010" PRIu64 "-%.16s/", start, step, manifest_sha256);
    return length + MANIFEST_FILE_SIZE < OBJECT_KEY_SIZE ? 0 : -ENAMETOOLONG;
}

void object_file_key(const char *folder, const char *name, char ret_key[OBJECT_KEY_SIZE])
{
    int length = snprintf(ret_key, OBJECT_KEY_SIZE, "%s%s", folder, name);
    assert(length < OBJECT_KEY_SIZE);
}

/* Split a key, "<job prefix>0000000120-0123456789abcdef/name", into its parts; false: foreign
 * key */
static bool split(const char *key, const char *job_prefix, struct object_checkpoint *ret_checkpoint,
                  const char **ret_name)
{
    static const char digits[] = "0123456789";
    size_t start = strlen(job_prefix);
    if (strncmp(key, job_prefix, start) != 0)
        return false;
    const char *step = key + start;
    size_t length = strspn(step, digits);
    if (length < 10 || length > 19 || step[length] != '-')
        return false;
    const char *id = step + length + 1;
    if (strspn(id, "0123456789abcdef") != OBJECT_ID_SIZE - 1 || id[OBJECT_ID_SIZE - 1] != '/')
        return false;
    const char *name = id + OBJECT_ID_SIZE;
    if (!manifest_file_valid(name))
        return false;
    *ret_checkpoint = (struct object_checkpoint){.step = strtoull(step, NULL, 10)};
    memcpy(ret_checkpoint->id, id, OBJECT_ID_SIZE - 1);
    memcpy(ret_checkpoint->folder, key, (size_t)(name - key));
    *ret_name = name;
    return true;
}

static int find_or_add(struct object_catalog *catalog, const struct object_checkpoint *seen,
                       struct object_checkpoint **ret_checkpoint)
{
    for (size_t i = catalog->count; i-- > 0;) /* listings are sorted: nearly always the last one */
        if (strcmp(catalog->checkpoints[i].folder, seen->folder) == 0) {
            *ret_checkpoint = &catalog->checkpoints[i];
            return 0;
        }
    struct object_checkpoint *grown =
        realloc(catalog->checkpoints, (catalog->count + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    catalog->checkpoints = grown;
    grown[catalog->count] = *seen;
    *ret_checkpoint = &grown[catalog->count++];
    return 0;
}

static int compare(const void *left, const void *right)
{
    const struct object_checkpoint *a = left, *b = right;
    return a->step != b->step ? (a->step > b->step) - (a->step < b->step) : strcmp(a->id, b->id);
}

int object_catalog_make(const struct object_list *list, const char *job_prefix,
                        struct object_catalog *ret_catalog)
{
    struct object_catalog catalog = {0};
    int status = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++) {
        struct object_checkpoint seen, *checkpoint;
        const char *name;
        if (!list->items[i].key || !split(list->items[i].key, job_prefix, &seen, &name))
            continue;
        status = find_or_add(&catalog, &seen, &checkpoint);
        if (status != 0)
            break;
        checkpoint->object_count++;
        checkpoint->size_bytes += list->items[i].size_bytes;
        if (strcmp(name, MANIFEST_NAME) == 0) {
            checkpoint->complete = true;
            checkpoint->manifest_bytes = list->items[i].size_bytes;
        }
    }
    if (status != 0) {
        object_catalog_done(&catalog);
        return status;
    }
    if (catalog.count > 1)
        qsort(catalog.checkpoints, catalog.count, sizeof(*catalog.checkpoints), compare);
    *ret_catalog = catalog;
    return 0;
}

void object_catalog_done(struct object_catalog *catalog)
{
    free(catalog->checkpoints);
    *catalog = (struct object_catalog){0};
}

const struct object_checkpoint *object_catalog_find(const struct object_catalog *catalog,
                                                    uint64_t step, bool any_up_to)
{
    for (size_t i = catalog->count; i-- > 0;) {
        const struct object_checkpoint *checkpoint = &catalog->checkpoints[i];
        if (checkpoint->complete &&
            (any_up_to ? checkpoint->step <= step : checkpoint->step == step))
            return checkpoint;
    }
    return NULL;
}

bool object_catalog_expired(const struct object_catalog *catalog, size_t index, uint64_t step,
                            const char *id, unsigned keep)
{
    const struct object_checkpoint *checkpoint = &catalog->checkpoints[index];
    if (checkpoint->step > step)
        return false;
    if (checkpoint->step == step)
        return strcmp(checkpoint->id, id) != 0;
    if (!checkpoint->complete)
        return true;
    unsigned newer = 1; /* @step itself */
    for (size_t i = index + 1; i < catalog->count; i++)
        newer += catalog->checkpoints[i].complete && catalog->checkpoints[i].step < step;
    return newer >= MAX(keep, 1u);
}
