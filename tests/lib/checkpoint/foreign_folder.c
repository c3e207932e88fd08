#include "lib/checkpoint/foreign_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

void foreign_text(const char *folder, const char *name, const char *text)
{
    char path[2048];
    struct error error = {0};
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(file_replace(path, text, strlen(text), 0644, &error), 0);
}

void foreign_file(const char *folder, const char *name, const struct foreign_tensor *tensors,
                  size_t count)
{
    struct safetensors_index index = {.entries = calloc(count, sizeof(*index.entries)),
                                      .count = count};
    struct bytes header = {0};
    char path[2048];

    assert_non_null(index.entries);
    for (size_t i = 0; i < count; i++) {
        struct safetensors_entry *entry = &index.entries[i];
        snprintf(entry->name, sizeof(entry->name), "%s", tensors[i].name);
        entry->dtype = tensors[i].dtype;
        entry->rank = tensors[i].rank;
        memcpy(entry->shape, tensors[i].shape, sizeof(tensors[i].shape));
        entry->user = i;
    }
    assert_int_equal(safetensors_layout(&index, &header), 0);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(header.data, 1, header.size_bytes, file), header.size_bytes);
    for (size_t i = 0; i < count; i++) {
        const struct safetensors_entry *entry = &index.entries[i];
        assert_int_equal(fseek(file, (long)entry->offset, SEEK_SET), 0);
        assert_int_equal(fwrite(tensors[entry->user].data, 1, entry->size_bytes, file),
                         entry->size_bytes);
    }
    assert_int_equal(fclose(file), 0);
    bytes_done(&header);
    safetensors_index_done(&index);
}
