#include "checkpoint/read/model_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static bool is_plain_name(const char *name)
{
    return name && name[0] != '\0' && name[0] != '.' && !strchr(name, '/') &&
           strlen(name) < MODEL_INDEX_NAME_SIZE;
}

static bool has_file(const struct model_index *index, const char *name)
{
    for (size_t i = 0; i < index->file_count; i++)
        if (strcmp(index->files[i], name) == 0)
            return true;
    return false;
}

/* The index repeats a file for each of its tensors: add it once. */
static int add_file(struct model_index *index, const char *name, const char *path,
                    struct error *error)
{
    if (has_file(index, name))
        return 0;
    if (index->file_count == MODEL_INDEX_FILES_MAX)
        return error_set(error, -EFBIG, "%s: more than %u files", path, MODEL_INDEX_FILES_MAX);
    void *files = realloc(index->files, (index->file_count + 1) * sizeof(*index->files));
    if (!files)
        return error_set(error, -ENOMEM, "no memory for the files of %s", path);
    index->files = files;
    strcpy(index->files[index->file_count++], name);
    return 0;
}

static int add_files(struct model_index *index, const json_t *map, const char *path,
                     struct error *error)
{
    const char *tensor;
    json_t *file;

    json_object_foreach((json_t *)(uintptr_t)map, tensor, file)
    {
        const char *name = json_string_value(file);
        int status =
            is_plain_name(name)
                ? add_file(index, name, path, error)
                : error_set(error, -EBADMSG, "%s: the file of tensor %s is not one of the folder",
                            path, tensor);
        if (status < 0)
            return status;
    }
    return 0;
}

int model_index_parse(const char *text, size_t size_bytes, const char *path,
                      struct model_index *ret_index, struct error *error)
{
    struct model_index index = {0};
    AUTO_JSON json_t *tree = NULL;
    json_t *map = NULL;
    int status = json_parse(text, size_bytes, path, &tree, error);

    if (status == 0)
        status = json_get_object(tree, "weight_map", &map, error);
    if (status == 0)
        status = add_files(&index, map, path, error);
    if (status < 0)
        model_index_done(&index);
    else
        *ret_index = index;
    return status;
}

void model_index_done(struct model_index *index)
{
    free(index->files);
    *index = (struct model_index){0};
}
