#include "model/net/unit_tables.h"

#include <assert.h>
#include <stdio.h>

struct unit_tensor *unit_add_tensor(struct unit_layout *layout, enum unit_part part,
                                    const char *prefix, const char *name, size_t rows,
                                    size_t columns)
{
    assert(layout->tensor_count < UNIT_TENSORS_MAX);
    struct unit_tensor *tensor = &layout->tensors[layout->tensor_count++];
    int length = snprintf(tensor->name, sizeof(tensor->name), "%s%s", prefix, name);
    assert(length > 0 && (size_t)length < sizeof(tensor->name));

    tensor->part = part;
    tensor->rank = columns == 0 ? 1 : 2;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->count = columns == 0 ? rows : rows * columns;
    tensor->decay = tensor->rank == 2;
    tensor->offset = layout->count;
    layout->count +=
        (tensor->count + UNIT_TENSOR_ALIGN - 1) / UNIT_TENSOR_ALIGN * UNIT_TENSOR_ALIGN;
    return tensor;
}
