/* Files of a model's folder as other programs write them. */
#pragma once

#include <stddef.h>

#include "checkpoint/format/safetensors.h"

struct foreign_tensor {
    const char *name;
    enum safetensors_dtype dtype;
    unsigned rank;
    size_t shape[2];
    const void *data;
};

/** foreign_text() - write a text file */
void foreign_text(const char *folder, const char *name, const char *text);

/** foreign_file() - write a safetensors file */
void foreign_file(const char *folder, const char *name, const struct foreign_tensor *tensors,
                  size_t count);
