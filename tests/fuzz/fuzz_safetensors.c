/* Safetensors headers: for any input, the tensors of an accepted header tile the file exactly. */
#include <stdlib.h>

#include "checkpoint/format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors_index index;
    struct error error;
    if (safetensors_parse(data, size, size, &index, &error) != 0)
        return 0;
    uint64_t end = index.header_bytes;
    for (size_t i = 0; i < index.count; i++) {
        if (index.entries[i].offset != end)
            abort();
        end += index.entries[i].size_bytes;
    }
    if (end != size)
        abort();
    safetensors_index_done(&index);
    return 0;
}
