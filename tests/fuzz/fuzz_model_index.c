/* The index of a model's folder: for any input, the listed files lie in the folder, and each file
 * is listed once. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/read/model_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct model_index *index)
{
    if (index->file_count > MODEL_INDEX_FILES_MAX)
        abort();
    for (size_t i = 0; i < index->file_count; i++) {
        const char *name = index->files[i];
        if (strnlen(name, MODEL_INDEX_NAME_SIZE) == MODEL_INDEX_NAME_SIZE || strchr(name, '/') ||
            strcmp(name, "..") == 0 || name[0] == '\0')
            abort();
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, index->files[k]) == 0)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_index index;
    struct error error;

    if (model_index_parse((const char *)data, size, "fuzz", &index, &error) == 0) {
        check(&index);
        model_index_done(&index);
    }
    return 0;
}
