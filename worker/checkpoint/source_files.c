#include "worker/checkpoint/source_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "checkpoint/format/folder.h"
#include "checkpoint/format/folder_before.h"
#include "checkpoint/format/model_files.h"
#include "elastic/job/huggingface.h"

/* Check that @config describes the model that the job has computed: the folder may have changed.
 * Tying of the head is not compared, because it changes while a job trains. */
static int check(const struct source_files *files, const json_t *config, struct error *error)
{
    const json_t *model = json_object_get(files->spec, "model");
    unsigned context = (unsigned)json_integer_value(json_object_get(model, "context"));
    AUTO_JSON json_t *keys = NULL;
    int status = huggingface_model(config, context, &keys, error);

    if (!status)
        json_object_del(keys, "tied");
    return status ? status : huggingface_agree(keys, model, error);
}

static int take_from(const struct source_files *files, const struct companion_source *source,
                     struct manifest *manifest, json_t **ret_config, char *ret_left_out,
                     struct error *error)
{
    AUTO_JSON json_t *config = NULL;
    const char *name = source->folder;
    int status = model_files_config(source, &config, error);

    if (!status && source->manifest) {
        name = huggingface_adopted(config);
        if (!name)
            return 1; /* the job of that checkpoint began from a seed */
    }
    if (!status)
        status = check(files, config, error);
    if (!status)
        status = model_files_copy(source, files->part, manifest, ret_left_out, error);
    if (status)
        return status;
    *ret_config = huggingface_adopt(config, files->own_config, name);
    return *ret_config ? 0 : error_set(error, -ENOMEM, "no memory for config.json");
}

/* Drop the files of a source that failed half-way: the next source may have others. */
static void drop(const struct source_files *files, struct manifest *manifest, size_t listed)
{
    char path[FOLDER_FILE_SIZE];

    for (size_t i = listed; i < manifest->file_count; i++) {
        folder_file_path(files->part, manifest->files[i].name, path);
        unlink(path);
    }
    manifest_drop_files(manifest, listed);
}

/* Take the files from the checkpoint in @path, whose manifest is @source. */
static int take_from_checkpoint(const struct source_files *files, const char *path,
                                const struct manifest *source, struct manifest *manifest,
                                json_t **ret_config, char *ret_left_out)
{
    const struct companion_source from = {.folder = path, .manifest = source};
    size_t listed = manifest->file_count;
    struct error ignored = {0};
    int status = take_from(files, &from, manifest, ret_config, ret_left_out, &ignored);

    if (status)
        drop(files, manifest, listed);
    return status;
}

/* Take the files from the newest checkpoint that has them undamaged. */
static int take_from_newest(const struct source_files *files, struct manifest *manifest,
                            json_t **ret_config, char *ret_left_out)
{
    uint64_t limit = files->step;
    int status = -EBADMSG;

    while (status < 0) {
        struct manifest source = {0};
        char path[FOLDER_PATH_SIZE];
        if (folder_newest_before(files->checkpoints, limit, path, &source))
            return -ENOENT;
        limit = source.step;
        status = take_from_checkpoint(files, path, &source, manifest, ret_config, ret_left_out);
        manifest_done(&source);
    }
    return status;
}

static int take_from_restored(const struct source_files *files, struct manifest *manifest,
                              json_t **ret_config, char *ret_left_out)
{
    struct manifest source = {0};
    int status = files->restored[0] ? manifest_load(files->restored, NULL, &source, NULL) : -ENOENT;

    if (!status)
        status = take_from_checkpoint(files, files->restored, &source, manifest, ret_config,
                                      ret_left_out);
    manifest_done(&source);
    return status;
}

int source_files_take(const struct source_files *files, struct manifest *manifest,
                      json_t **ret_config, char *ret_left_out, struct error *error)
{
    const json_t *model = json_object_get(files->spec, "model");
    const char *from = json_string_value(json_object_get(model, "from"));
    const struct companion_source folder = {.folder = from};
    size_t listed = manifest->file_count;

    ret_left_out[0] = '\0';
    if (!take_from_newest(files, manifest, ret_config, ret_left_out) ||
        !take_from_restored(files, manifest, ret_config, ret_left_out))
        return 0;
    if (!from || !from[0])
        return 1;
    int status = take_from(files, &folder, manifest, ret_config, ret_left_out, error);
    if (status) {
        drop(files, manifest, listed);
        error_prefix(error, "model.from %s: ", from);
    }
    return status;
}
