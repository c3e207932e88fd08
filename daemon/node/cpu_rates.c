#include "daemon/node/cpu_rates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "daemon/node/kept_rates.h"
#include "daemon/node/numerics_identity.h"

#define FILE_NAME  "cpu-rates"
#define PATH_SIZE  (CONFIG_TEXT_SIZE + sizeof(FILE_NAME) + 1)
#define MODEL_SIZE 96

struct cpu_rates {
    struct cpu_rates_options options;
    pid_t pid; /* 0: the process has ended */
    int output;
    struct loop_io *readable;
    struct loop_timer *patience;
    char path[PATH_SIZE], key[KEPT_RATES_KEY_SIZE], line[KEPT_RATES_LINE_SIZE];
    size_t used;
};

/* ---- kept rates ---- */

/* Find the processor's name; "processor" if Linux gives none, as on ARM. */
static void find_model(char ret_model[MODEL_SIZE])
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");

    snprintf(ret_model, MODEL_SIZE, "processor");
    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " ");
        snprintf(ret_model, MODEL_SIZE, "%.*s",
                 (int)MIN(strcspn(colon, "\n"), (size_t)MODEL_SIZE - 1), colon);
        break;
    }
    if (file)
        fclose(file);
}

/* @numerics_identity includes the number of threads. */
static void make_key(const char *numerics_identity, char ret_key[KEPT_RATES_KEY_SIZE])
{
    char model[MODEL_SIZE];

    find_model(model);
    snprintf(ret_key, KEPT_RATES_KEY_SIZE, "%s; %s; firn %s", numerics_identity, model,
             FIRN_VERSION);
}

static void make_path(const struct config *config, char ret_path[PATH_SIZE])
{
    snprintf(ret_path, PATH_SIZE, "%s/%s", config->data_dir, FILE_NAME);
}

int cpu_rates_parse(const char *line, struct record_rates *ret_rates)
{
    struct record_rates rates = {0};

    if (!kept_rates_number(&line, "f32", &rates.f32_flops) ||
        !kept_rates_number(&line, "memory", &rates.memory_bytes) || *line)
        return -EINVAL;
    if (rates.f32_flops <= 0 || rates.memory_bytes <= 0)
        return -EINVAL;
    *ret_rates = rates;
    return 0;
}

int cpu_rates_recall(const struct config *config, const char *numerics_identity,
                     struct record_rates *ret_rates)
{
    char path[PATH_SIZE], key[KEPT_RATES_KEY_SIZE], line[KEPT_RATES_LINE_SIZE];

    make_path(config, path);
    make_key(numerics_identity, key);
    kept_rates_recall(path, key, line);
    return cpu_rates_parse(line, ret_rates) ? -ENOENT : 0;
}

/* ---- the measurement ---- */

static void stop(struct cpu_rates *rates)
{
    const struct loop *loop = rates->options.loop;

    if (rates->readable)
        loop->io_remove(loop->context, rates->readable);
    if (rates->patience)
        loop->timer_remove(loop->context, rates->patience);
    rates->readable = NULL;
    rates->patience = NULL;
    if (!rates->pid)
        return;
    close(rates->output);
    numerics_identity_end(rates->pid);
    rates->pid = 0;
}

static void conclude(struct cpu_rates *rates)
{
    struct record_rates measured;

    stop(rates);
    rates->line[rates->used] = '\0';
    size_t length = strcspn(rates->line, "\n");
    bool whole = rates->line[length] == '\n';
    rates->line[length] = '\0';
    if (!whole || cpu_rates_parse(rates->line, &measured)) {
        log_warning("the processor was not measured (%s rates cpu:%u); plans assume a typical one",
                    rates->options.config->worker, rates->options.config->threads);
        rates->options.measured(rates->options.context, NULL);
        return;
    }
    kept_rates_keep(rates->path, rates->key, rates->line);
    rates->options.measured(rates->options.context, &measured);
}

static void on_readable(void *context, int descriptor, unsigned events)
{
    struct cpu_rates *rates = context;
    ssize_t got =
        read(descriptor, rates->line + rates->used, sizeof(rates->line) - 1 - rates->used);

    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    rates->used += got > 0 ? (size_t)got : 0;
    if (got <= 0 || memchr(rates->line, '\n', rates->used) ||
        rates->used + 1 == sizeof(rates->line))
        conclude(rates);
}

static void on_late(void *context)
{
    conclude(context);
}

int cpu_rates_start(const struct cpu_rates_options *options, struct cpu_rates **ret_rates)
{
    const struct loop *loop = options->loop;
    struct cpu_rates *rates = calloc(1, sizeof(*rates));
    char device[24];

    if (!rates)
        return -ENOMEM;
    rates->options = *options;
    make_path(options->config, rates->path);
    make_key(options->numerics_identity, rates->key);
    snprintf(device, sizeof(device), "cpu:%u", options->config->threads);
    int status = numerics_identity_begin(options->config->worker, "rates", device, &rates->pid,
                                         &rates->output);
    if (!status && fcntl(rates->output, F_SETFL, O_NONBLOCK))
        status = -errno;
    if (!status)
        status = loop->io_add(loop->context, rates->output, LOOP_READ, on_readable, rates,
                              &rates->readable);
    if (!status)
        status = loop->timer_add(loop->context, loop->now_ns(loop->context) + KEPT_RATES_MEASURE_NS,
                                 on_late, rates, &rates->patience);
    if (status) {
        cpu_rates_free(rates);
        return status;
    }
    *ret_rates = rates;
    return 0;
}

void cpu_rates_free(struct cpu_rates *rates)
{
    if (!rates)
        return;
    stop(rates);
    free(rates);
}
