/* Files of tokens in each format: an opened file has only tokens of the vocabulary, at every
 * position. The first byte chooses the format, and whether the file is mapped. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/memory_file.h"
#include "model/data/token_row.h"

#define VOCAB 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct token_row *row)
{
    int32_t tokens[64];
    for (uint64_t at = 0; at < row->count;) {
        size_t count = (size_t)MIN(row->count - at, (uint64_t)ARRAY_COUNT(tokens));
        token_row_read(row, at, count, tokens);
        for (size_t i = 0; i < count; i++)
            if (tokens[i] < 0 || tokens[i] >= VOCAB)
                abort();
        at += count;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct memory_file file = memory_file_make(data + 1, size - 1);
    struct listed_file listed[2] = {{file.path, size - 1}, {file.path, size - 1}};
    const struct file_list files = {.files = listed, .count = 1 + data[0] / 8 % 2, .capacity = 2};
    const struct token_row_options options = {
        .format = (enum dataset_format)(data[0] % (DATASET_UINT32 + 1)),
        .files = &files,
        .vocab = VOCAB,
        .memory_max_bytes = data[0] / 16 % 2 ? 0 : DATASET_MEMORY_MAX,
        .map_min_bytes = data[0] / 32 % 2 ? 1 : 4096,
    };
    struct token_row row;
    struct error error = {0};
    if (token_row_open(&options, &row, &error) == 0) {
        read_all(&row);
        token_row_done(&row);
    } else if (error.text[0] == '\0') {
        abort();
    }
    memory_file_close(&file);
    return 0;
}
