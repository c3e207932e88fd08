#include "daemon/node/gpu_slots.h"

#include <stdio.h>

/* Memory per GPU that NVML counts but a worker cannot use: the driver's own (0.5 GiB of an
 * H100), a context (0.5), the kernels' workspaces (96 MiB), cuDNN's (256 MiB), the libraries'
 * machine code, CUDA graphs, NCCL's buffers. If the reserve is too small, workers refuse the
 * plan. */
#define RESERVED_BYTES ((uint64_t)2 << 30)

void gpu_slots(const struct gpu_list *list, unsigned slots_max, unsigned thread_count,
               struct node_record *self)
{
    self->slot_count = MIN(MIN(list->count, slots_max), (unsigned)RECORD_SLOTS_MAX);
    for (unsigned i = 0; i < self->slot_count; i++) {
        const struct gpu *gpu = &list->gpus[i];
        snprintf(self->slots[i].kind, sizeof(self->slots[i].kind), "cuda");
        snprintf(self->slots[i].device, sizeof(self->slots[i].device), "%s", gpu->uuid);
        self->slots[i].thread_count = thread_count;
        self->slots[i].memory_bytes =
            gpu->memory_bytes - MIN(gpu->memory_bytes / 2, RESERVED_BYTES);
        self->slots[i].speed = 1.0;
        self->slots[i].bad[0] = '\0';
    }
    gpu_slots_update(list, self);
}

bool gpu_slots_update(const struct gpu_list *list, struct node_record *self)
{
    bool changed = false;

    for (unsigned i = 0; i < self->slot_count && i < list->count; i++) {
        size_t size = sizeof(self->slots[i].bad);
        if (self->slots[i].bad[0] || !gpu_fault(&list->gpus[i], self->slots[i].bad, size))
            continue;
        changed = true;
    }
    return changed;
}
