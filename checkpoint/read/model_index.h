/* model.safetensors.index.json of a folder that another program wrote: which files it consists of.
 */
#pragma once

#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

#define MODEL_INDEX_FILES_MAX 4096u
#define MODEL_INDEX_NAME_SIZE 256

struct model_index {
    char (*files)[MODEL_INDEX_NAME_SIZE]; /* each once, in the order of the index */
    size_t file_count;
};

/**
 * model_index_parse() - the names in `weight_map`
 * @path: of the index, for messages
 *
 * A name is that of a file in the same folder: no separator, no leading dot, shorter than
 * MODEL_INDEX_NAME_SIZE. -EBADMSG, -EINVAL with what is wrong; -EFBIG: more files than
 * MODEL_INDEX_FILES_MAX; -ENOMEM.
 */
int model_index_parse(const char *text, size_t size_bytes, const char *path,
                      struct model_index *ret_index, struct error *error) CHECK_RESULT;
void model_index_done(struct model_index *index);
