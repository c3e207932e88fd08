#include "checkpoint/format/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size_words.h"
#include "checkpoint/format/folder.h"

#define CONFIG_NAME "config.json"
#define CONFIG_MAX  ((size_t)1 << 20)
#define PATH_BYTES  4096

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), size = strlen(suffix);
    return length >= size && strcasecmp(name + length - size, suffix) == 0;
}

bool companion_name(const char *name)
{
    /* Weights in all formats, optimizers, and code, which a loader would run. */
    static const char *const suffixes[] = {
        ".safetensors", ".bin",  ".pt",   ".pth",     ".ckpt", ".h5",         ".msgpack",
        ".onnx",        ".gguf", ".ot",   ".tflite",  ".npz",  ".index.json", ".py",
        ".pyc",         ".so",   ".part", ".damaged", ".tmp"};
    static const char *const others[] = {
        CONFIG_NAME,   MANIFEST_NAME, "metrics.jsonl",  "pinned",    "verified",          "placed",
        "sealed.json", "copies.json", "io-tuning.json", "README.md", "trainer_state.json"};
    if (!manifest_file_valid(name) || strlen(name) >= MANIFEST_FILE_SIZE ||
        (strncmp(name, "part-", 5) == 0 && ends_with(name, ".json")) ||
        (strncmp(name, "metrics-", 8) == 0 && ends_with(name, ".jsonl")))
        return false;
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++)
        if (ends_with(name, suffixes[i]))
            return false;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        if (strcasecmp(name, others[i]) == 0)
            return false;
    return true;
}

/* ---- another program's folder ---- */

static void leave_out(struct model_files *companions, const char *name, const char *why)
{
    if (companions->left_out[0] == '\0')
        snprintf(companions->left_out, MODEL_FILES_WORDS, "%s %s", name, why);
}

static void consider(struct model_files *companions, const char *name, uint64_t size_bytes,
                     uint64_t *total_bytes)
{
    char why[96], size[SIZE_WORDS_SIZE];
    if (size_bytes > COMPANION_BYTES_MAX) {
        snprintf(why, sizeof(why), "has %s; a file beside a model may have %zu MiB",
                 size_words(size_bytes, size), COMPANION_BYTES_MAX >> 20);
        leave_out(companions, name, why);
    } else if (size_bytes > MODEL_FILES_BYTES_MAX - *total_bytes) {
        snprintf(why, sizeof(why), "is too much: all files beside a model may have %zu MiB",
                 MODEL_FILES_BYTES_MAX >> 20);
        leave_out(companions, name, why);
    } else if (companions->count == MODEL_FILES_MAX) {
        snprintf(why, sizeof(why), "is too much: %d files beside a model are taken",
                 MODEL_FILES_MAX);
        leave_out(companions, name, why);
    } else {
        *total_bytes += size_bytes;
        memcpy(companions->names[companions->count++], name, strlen(name) + 1);
    }
}

static int is_companion(const struct dirent *entry)
{
    return companion_name(entry->d_name);
}

int model_files_find(const char *folder, struct model_files *ret_companions, struct error *error)
{
    struct dirent **entries = NULL;
    uint64_t total_bytes = 0;
    int count = scandir(folder, &entries, is_companion, alphasort);
    if (count < 0)
        return error_set(error, -errno, "%s: %s", folder, strerror(errno));
    *ret_companions = (struct model_files){0};
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES];
        struct stat status;
        bool fits = snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name) < PATH_BYTES;
        if (fits && stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
            consider(ret_companions, entries[i]->d_name, (uint64_t)status.st_size, &total_bytes);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

/* ---- both kinds of folders ---- */

/* No limits are checked: the files of a checkpoint of firn are within them. */
static void list_manifest(const struct manifest *manifest, struct model_files *ret_companions)
{
    uint64_t total_bytes = 0;
    *ret_companions = (struct model_files){0};
    for (size_t i = 0; i < manifest->file_count; i++)
        if (companion_name(manifest->files[i].name))
            consider(ret_companions, manifest->files[i].name, manifest->files[i].size_bytes,
                     &total_bytes);
}

static int read_file(const struct companion_source *source, const char *name, size_t size_max,
                     struct bytes *ret_content, struct error *error)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof(path), "%s/%s", source->folder, name) >= PATH_BYTES)
        return error_set(error, -ENAMETOOLONG, "%s/%s: the path is too long", source->folder, name);
    int status = file_read(path, size_max, ret_content, error);
    if (status != 0 || !source->manifest)
        return status;
    status = manifest_check_file(source->manifest, name, ret_content, path, error);
    if (status != 0)
        bytes_done(ret_content);
    return status;
}

int model_files_config(const struct companion_source *source, json_t **ret_config,
                       struct error *error)
{
    CLEANUP(bytes_done) struct bytes text = {0};
    int status = read_file(source, CONFIG_NAME, CONFIG_MAX, &text, error);
    return status != 0 ? status
                       : json_parse((const char *)text.data, text.size_bytes, source->folder,
                                    ret_config, error);
}

static int copy_file(const struct companion_source *source, const char *name, const char *part,
                     struct manifest *into, struct error *error)
{
    CLEANUP(bytes_done) struct bytes content = {0};
    char to[FOLDER_FILE_SIZE];
    folder_file_path(part, name, to);
    int status = read_file(source, name, COMPANION_BYTES_MAX, &content, error);
    if (status == 0)
        status = file_replace(to, content.data, content.size_bytes, 0644, error);
    if (status == 0 && manifest_add_file(into, name, content.data, content.size_bytes) != 0) {
        unlink(to);
        status = error_set(error, -ENOMEM, "no memory to list %s", to);
    }
    return status;
}

int model_files_copy(const struct companion_source *source, const char *part, struct manifest *into,
                     char ret_left_out[MODEL_FILES_WORDS], struct error *error)
{
    AUTO_FREE struct model_files *companions = calloc(1, sizeof(*companions));
    int status = 0;
    if (!companions)
        return error_set(error, -ENOMEM, "no memory for the files of %s", source->folder);
    if (source->manifest)
        list_manifest(source->manifest, companions);
    else
        status = model_files_find(source->folder, companions, error);
    for (size_t i = 0; status == 0 && i < companions->count; i++)
        status = copy_file(source, companions->names[i], part, into, error);
    if (status == 0)
        memcpy(ret_left_out, companions->left_out, MODEL_FILES_WORDS);
    return status;
}
