#include "worker/checkpoint/part_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

void part_file_name(unsigned rank, char ret_name[PART_FILE_NAME_SIZE])
{
    snprintf(ret_name, PART_FILE_NAME_SIZE, "part-%05u.json", rank);
}

int part_file_write(const char *directory, unsigned rank, const struct manifest *part,
                    struct error *error)
{
    AUTO_JSON json_t *tree = manifest_encode(part);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;
    char name[PART_FILE_NAME_SIZE], path[PATH_MAX];

    if (!text)
        return error_set(error, -ENOMEM, "no memory for a manifest part");
    part_file_name(rank, name);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return file_replace(path, text, strlen(text), 0644, error);
}

int part_file_decode(const struct bytes *text, const char *name, struct manifest *ret_part,
                     struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    int status = json_parse((const char *)text->data, text->size_bytes, name, &tree, error);

    return status ? status : manifest_decode(tree, name, ret_part, error);
}
