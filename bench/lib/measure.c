#include "bench/lib/measure.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"

#define TEXT_SIZE 1024

struct measure {
    char name[64];
    json_t *root;
    json_t *results;
};

/* ---- samples ---- */

void samples_add(struct samples *samples, double value)
{
    if (samples->count < SAMPLES_MAX)
        samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double samples_quantile(const struct samples *samples, double share)
{
    double sorted[SAMPLES_MAX];

    if (samples->count == 0)
        return 0.0;
    memcpy(sorted, samples->values, samples->count * sizeof(double));
    qsort(sorted, samples->count, sizeof(double), compare);
    double rank = share * (double)(samples->count - 1);
    unsigned below = (unsigned)rank, above = MIN(below + 1, samples->count - 1);
    return sorted[below] + (rank - (double)below) * (sorted[above] - sorted[below]);
}

double samples_median(const struct samples *samples)
{
    return samples_quantile(samples, 0.5);
}

double samples_mean(const struct samples *samples)
{
    double sum = 0.0;

    for (unsigned i = 0; i < samples->count; i++)
        sum += samples->values[i];
    return samples->count ? sum / samples->count : 0.0;
}

double measure_now(void)
{
    return (double)clock_monotonic_ns() / 1e9;
}

double measure_cpu(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* ---- arguments ---- */

const char *measure_option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

unsigned measure_count(int argc, char **argv, const char *name, unsigned otherwise)
{
    const char *text = measure_option(argc, argv, name, NULL);
    char *end;

    if (!text)
        return otherwise;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < 1 || value > 1000000)
        measure_die("%s: %s \"%s\" is not a count", argv[0], name, text);
    return (unsigned)value;
}

/* ---- results ---- */

void measure_die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* Return the value, after the colon, of the first line of @path that begins with @key. Without a
 * key: the whole first line. */
static void line_of(const char *path, const char *key, char ret_text[TEXT_SIZE])
{
    FILE *file = fopen(path, "r");
    char line[TEXT_SIZE];

    snprintf(ret_text, TEXT_SIZE, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *colon = *key ? strchr(line, ':') : NULL;
        snprintf(ret_text, TEXT_SIZE, "%s", colon ? colon + 2 : line);
        ret_text[strcspn(ret_text, "\n")] = '\0';
        break;
    }
    if (file)
        fclose(file);
}

static void command_of(int argc, char **argv, char ret_text[TEXT_SIZE])
{
    size_t used = 0;

    ret_text[0] = '\0';
    for (int i = 0; i < argc && used < TEXT_SIZE; i++)
        used += (size_t)snprintf(ret_text + used, TEXT_SIZE - used, i ? " %s" : "%s", argv[i]);
}

struct measure *measure_begin(const char *name, const char *what, int argc, char **argv)
{
    struct measure *measure = calloc(1, sizeof(*measure));
    char command[TEXT_SIZE], processor[TEXT_SIZE], load[TEXT_SIZE], date[32];
    time_t now = time(NULL);

    if (!measure || !(measure->results = json_object()))
        measure_die("%s: no memory", name);
    snprintf(measure->name, sizeof(measure->name), "%s", name);
    command_of(argc, argv, command);
    line_of("/proc/cpuinfo", "model name", processor);
    line_of("/proc/loadavg", "", load);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    measure->root =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "benchmark", name, "what", what, "command",
                  command, "date", date, "processor", processor, "load_at_start", load);
    if (!measure->root)
        measure_die("%s: no memory", name);
    printf("== %s: %s\n   %s (load %s)\n", name, what, command, load);
    fflush(stdout);
    return measure;
}

void measure_number(struct measure *measure, const char *key, double value)
{
    if (json_object_set_new(measure->results, key, json_real(value)))
        measure_die("%s: no memory for %s, or it is not a number", measure->name, key);
}

void measure_text(struct measure *measure, const char *key, const char *text)
{
    if (json_object_set_new(measure->results, key, json_string(text)))
        measure_die("%s: no memory for %s", measure->name, key);
}

void measure_samples(struct measure *measure, const char *key, const struct samples *samples)
{
    json_t *tree = json_pack("{s:f, s:f, s:f, s:i}", "median", samples_median(samples), "p10",
                             samples_quantile(samples, 0.1), "p90", samples_quantile(samples, 0.9),
                             "count", (int)samples->count);

    if (json_object_set_new(measure->results, key, tree))
        measure_die("%s: no memory for %s", measure->name, key);
}

int measure_end(struct measure *measure)
{
    const char *folder = getenv("FIRN_BENCH_OUT");
    char path[TEXT_SIZE];
    struct error error = {0};
    int status;

    folder = folder ? folder : "build/bench";
    snprintf(path, sizeof(path), "%s/%s.json", folder, measure->name);
    json_object_set_new(measure->root, "results", measure->results);
    status = file_make_directories(folder, 0755, &error);
    if (!status && json_dump_file(measure->root, path, JSON_INDENT(2) | JSON_REAL_PRECISION(6)))
        status = error_set(&error, -EIO, "%s cannot be written", path);
    if (status)
        fprintf(stderr, "%s: %s\n", measure->name, error.text);
    json_decref(measure->root);
    free(measure);
    return status ? 1 : 0;
}
