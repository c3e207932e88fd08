#include "daemon/gpu_rates.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/arithmetic.h"

#define FILE_NAME   "gpu-rates"
#define LINE_SIZE   256
#define FILE_SIZE   (sizeof(((struct node_record *)0)->arithmetic) + LINE_SIZE)
#define MEASURE_NS  (30 * NS_PER_SECOND) /* three contexts are made, each may take seconds */
#define NVLINK_RATE 1.5e11               /* Ampere's and Hopper's, about half in one direction */

/* "NAME NUMBER" at @ret_next, which then is what follows */
static bool take_number(const char **ret_next, const char *name, double *ret_number)
{
    size_t length = strlen(name);
    char *end;

    if (strncmp(*ret_next, name, length) != 0 || (*ret_next)[length] != ' ')
        return false;
    *ret_number = strtod(*ret_next + length + 1, &end);
    if (end == *ret_next + length + 1 || !isfinite(*ret_number) || (*end != ' ' && *end != '\0'))
        return false;
    *ret_next = *end == ' ' ? end + 1 : end;
    return true;
}

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
        if (!take_number(&line, fields[i].name, fields[i].number) || *fields[i].number <= 0)
            return -EINVAL;
    if (!take_number(&line, "nccl", &nccl) || *line)
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

/* What was measured of such devices before; "": nothing. */
static void recall(const char *path, const char *arithmetic, char *ret_line)
{
    struct bytes content = {0};

    ret_line[0] = '\0';
    if (!file_read(path, FILE_SIZE, &content, NULL)) {
        const char *text = (const char *)content.data;
        size_t length = strlen(arithmetic);
        if (!strncmp(text, arithmetic, length) && text[length] == '\n')
            snprintf(ret_line, LINE_SIZE, "%.*s", (int)strcspn(text + length + 1, "\n"),
                     text + length + 1);
    }
    bytes_done(&content);
}

static void keep(const char *path, const char *arithmetic, const char *line)
{
    char text[FILE_SIZE + 2];
    struct error error = {0};
    int length = snprintf(text, sizeof(text), "%s\n%s\n", arithmetic, line);

    if (file_replace(path, text, (size_t)length, 0644, &error))
        log_warning("the rates of the GPUs are not kept: %s", error.text);
}

void gpu_rates_describe(const struct config *config, const struct gpu_list *list,
                        struct node_record *self)
{
    char path[CONFIG_TEXT_SIZE + sizeof(FILE_NAME) + 1], line[LINE_SIZE] = "";
    bool nccl = false;

    self->rates = (struct record_rates){0};
    if (!self->slot_count || !self->arithmetic[0])
        return;
    snprintf(path, sizeof(path), "%s/%s", config->data_dir, FILE_NAME);
    recall(path, self->arithmetic, line);
    if (gpu_rates_parse(line, &self->rates, &nccl)) {
        arithmetic_ask(config->worker, "rates", "cuda", MEASURE_NS, line, sizeof(line));
        if (gpu_rates_parse(line, &self->rates, &nccl)) {
            log_warning("the GPUs were not measured: plans know their kind alone");
            return;
        }
        keep(path, self->arithmetic, line);
    }
    if (nccl && gpu_rates_linked(list))
        self->rates.link_bytes = NVLINK_RATE;
    log_info("GPUs: %.0f TFLOP/s in bf16, %.0f GB/s of memory, %.0f GB/s between them",
             self->rates.bf16_flops / 1e12, self->rates.memory_bytes / 1e9,
             self->rates.link_bytes / 1e9);
}
