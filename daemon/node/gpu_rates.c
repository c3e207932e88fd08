#include "daemon/node/gpu_rates.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/node/kept_rates.h"
#include "daemon/node/numerics_identity.h"

#define FILE_NAME   "gpu-rates"
#define NVLINK_RATE 1.5e11 /* Ampere's and Hopper's, about half of it per direction */

int gpu_rates_parse(const char *line, struct record_rates *ret_rates, bool *ret_nccl)
{
    struct record_rates rates = {0};
    const struct {
        const char *name;
        double *number;
    } fields[] = {{"bf16", &rates.bf16_flops},
                  {"tf32", &rates.tf32_flops},
                  {"f32", &rates.f32_flops},
                  {"memory", &rates.memory_bytes},
                  {"host", &rates.link_bytes}};
    double nccl = 0;

    for (size_t i = 0; i < ARRAY_COUNT(fields); i++)
        if (!kept_rates_number(&line, fields[i].name, fields[i].number) || *fields[i].number <= 0)
            return -EINVAL;
    if (!kept_rates_number(&line, "nccl", &nccl) || *line)
        return -EINVAL;
    *ret_rates = rates;
    *ret_nccl = nccl > 0;
    return 0;
}

bool gpu_rates_linked(const struct gpu_list *list)
{
    for (unsigned i = 0; i < list->count; i++)
        for (unsigned k = 0; k < list->count; k++)
            if (i != k && list->gpus[i].paths[k] != GPU_PATH_NVLINK)
                return false;
    return list->count > 1;
}

void gpu_rates_describe(const struct config *config, const struct gpu_list *list,
                        struct node_record *self)
{
    char path[CONFIG_TEXT_SIZE + sizeof(FILE_NAME) + 1], line[KEPT_RATES_LINE_SIZE] = "";
    bool nccl = false;

    self->rates = (struct record_rates){0};
    if (!self->slot_count || !self->numerics_identity[0])
        return;
    snprintf(path, sizeof(path), "%s/%s", config->data_dir, FILE_NAME);
    kept_rates_recall(path, self->numerics_identity, line);
    if (gpu_rates_parse(line, &self->rates, &nccl)) {
        numerics_identity_ask(config->worker, "rates", "cuda", KEPT_RATES_MEASURE_NS, line,
                              sizeof(line));
        if (gpu_rates_parse(line, &self->rates, &nccl)) {
            log_warning("the GPUs were not measured: plans know their kind alone");
            return;
        }
        kept_rates_keep(path, self->numerics_identity, line);
    }
    if (nccl && gpu_rates_linked(list))
        self->rates.link_bytes = NVLINK_RATE;
    log_info("GPUs: %.0f TFLOP/s in bf16, %.0f GB/s of memory, %.0f GB/s between them",
             self->rates.bf16_flops / 1e12, self->rates.memory_bytes / 1e9,
             self->rates.link_bytes / 1e9);
}
