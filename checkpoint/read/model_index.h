/* Parse model.safetensors.index.json of a folder that another program wrote: the list of its
 * files. */
#pragma once

#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

#define MODEL_INDEX_FILES_MAX 4096u
#define MODEL_INDEX_NAME_SIZE 256

struct model_index {
    char (*files)[MODEL_INDEX_NAME_SIZE]; /* each file once, in the order of the index */
    size_t file_count;
};

/**
 * model_index_parse() - list the files in `weight_map`
 * @path: path of the index, for messages
 *
 * Each must name a file in the same folder: no separator, no leading dot, shorter than
 * MODEL_INDEX_NAME_SIZE. -EBADMSG, -EINVAL with the cause; -EFBIG: more files than
 * MODEL_INDEX_FILES_MAX; -ENOMEM.
 */
int model_index_parse(const char *text, size_t size_bytes, const char *path,
                      struct model_index *ret_index, struct error *error) CHECK_RESULT;
void model_index_done(struct model_index *index);
