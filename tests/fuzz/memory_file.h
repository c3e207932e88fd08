/* An input as a file with a path, for decoders that open one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct memory_file {
    int descriptor;
    char path[64];
};

/** memory_file_make() - make a file in memory; its path is below /proc */
struct memory_file memory_file_make(const uint8_t *data, size_t size);

/** memory_file_close() - close the file */
void memory_file_close(struct memory_file *file);
