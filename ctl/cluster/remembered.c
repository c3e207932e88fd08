#include "ctl/cluster/remembered.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

#define FILE_MAX ((size_t)64 << 20)

bool remembered_path(const char *endpoints, const char *cluster,
                     char ret_path[REMEMBERED_PATH_SIZE])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct hash128 place = hash_xxh3(endpoints, strlen(endpoints));
    char folder[REMEMBERED_PATH_SIZE / 2];
    int length = cache && cache[0] == '/'
                     ? snprintf(folder, sizeof(folder), "%s/firn", cache)
                     : snprintf(folder, sizeof(folder), "%s/.cache/firn", home ? home : "");

    if (folder[0] != '/' || (!home && !cache) || length >= (int)sizeof(folder) ||
        file_make_directories(folder, 0700, NULL))
        return false;
    return snprintf(ret_path, REMEMBERED_PATH_SIZE, "%s/%s-%016" PRIx64 ".json", folder, cluster,
                    place.low) < REMEMBERED_PATH_SIZE;
}

static bool is_ours(const char *name)
{
    size_t length = strlen(name);

    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

/* Remove the oldest file of @folder if there are too many. */
static void forget_oldest(int folder)
{
    char oldest[NAME_MAX + 1] = "";
    struct timespec when = {0};
    unsigned count = 0;
    struct dirent *entry;
    DIR *list = fdopendir(dup(folder));

    if (!list)
        return;
    rewinddir(list);
    while ((entry = readdir(list))) {
        struct stat found;
        if (!is_ours(entry->d_name) || fstatat(folder, entry->d_name, &found, AT_SYMLINK_NOFOLLOW))
            continue;
        bool older = found.st_mtim.tv_sec < when.tv_sec ||
                     (found.st_mtim.tv_sec == when.tv_sec && found.st_mtim.tv_nsec < when.tv_nsec);
        if (count++ == 0 || older) {
            when = found.st_mtim;
            snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
        }
    }
    closedir(list);
    if (count > REMEMBERED_FILES_MAX)
        unlinkat(folder, oldest, 0);
}

/* Remove up to two files for each new one, so that an overfull folder shrinks to its limit. */
static void make_room(const char *path)
{
    char text[REMEMBERED_PATH_SIZE];
    snprintf(text, sizeof(text), "%s", path);
    *strrchr(text, '/') = '\0';
    AUTO_CLOSE int folder = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (unsigned i = 0; folder >= 0 && i < 2; i++)
        forget_oldest(folder);
}

/* Return the plan with its link key replaced by another one of the same length. */
static json_t *without_secret(const struct kv_entry *entry)
{
    json_t *tree = json_loadb(entry->value, entry->value_bytes, 0, NULL);
    size_t length = json_string_length(json_object_get(tree, "key"));
    char zeros[128];

    if (length == 0 || length >= sizeof(zeros))
        return tree;
    memset(zeros, '0', length);
    if (!json_object_set_new(tree, "key", json_stringn(zeros, length)))
        return tree;
    json_decref(tree);
    return NULL;
}

void remembered_save(const char *path, const struct kv_entry *entries, size_t count)
{
    AUTO_JSON json_t *list = json_array();
    AUTO_JSON json_t *tree = NULL;
    int status = list ? 0 : -ENOMEM;

    for (size_t i = 0; i < count && !status; i++) {
        json_t *value = without_secret(&entries[i]);
        if (value) /* skip values that are not JSON */
            status = json_array_append_new(list, json_pack("[s, o]", entries[i].key, value));
    }
    if (!status)
        tree = json_pack("{s:I, s:O}", "unix_ns", (json_int_t)clock_unix_ns(), "entries", list);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    bool is_new = access(path, F_OK) != 0;
    if (text && file_replace(path, text, strlen(text), 0600, NULL) == 0 && is_new)
        make_room(path);
}

static int decode(const json_t *list, struct kv_entry *entries, char **values, size_t *ret_count)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        const char *key = json_string_value(json_array_get(pair, 0));
        char *value = json_dumps(json_array_get(pair, 1), JSON_COMPACT | JSON_ENCODE_ANY);
        if (!key || !value || strlen(key) >= KV_KEY_MAX) {
            free(value);
            continue;
        }
        values[count] = value;
        entries[count++] =
            (struct kv_entry){.key = key, .value = value, .value_bytes = strlen(value)};
    }
    *ret_count = count;
    return 0;
}

int remembered_load(const char *path,
                    int (*take)(void *context, const struct kv_entry *entries, size_t count,
                                struct error *error),
                    void *context, uint64_t *ret_unix_ns, struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    AUTO_JSON json_t *tree = NULL;
    json_t *list;
    size_t count = 0;
    int status = file_read(path, FILE_MAX, &text, error);

    if (!status)
        status = json_parse((const char *)text.data, text.size_bytes, path, &tree, error);
    if (!status)
        status = json_get_u64(tree, "unix_ns", INT64_MAX, ret_unix_ns, error);
    if (!status)
        status = json_get_array(tree, "entries", SIZE_MAX, &list, error);
    if (status)
        return status;
    AUTO_FREE struct kv_entry *entries = calloc(json_array_size(list) + 1, sizeof(*entries));
    AUTO_FREE char **values = calloc(json_array_size(list) + 1, sizeof(*values));
    if (!entries || !values)
        return error_set(error, -ENOMEM, "no memory for %s", path);
    status = decode(list, entries, values, &count);
    if (!status)
        status = take(context, entries, count, error);
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    return status;
}
