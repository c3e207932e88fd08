#include "daemon/core/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/line_rotation.h"
#include "base/log.h"

#define FILE_BYTES_MAX ((off_t)64 << 20) /* of events.jsonl; about 200,000 events */
#define KEPT_BYTES     ((size_t)4 << 20) /* newest lines that a rotation keeps */

static void log_it(const struct event_facts *facts, const char *text)
{
    char generation[24], step[24];
    const struct log_field fields[] = {
        {"JOB", facts->job}, {"GENERATION", generation}, {"STEP", step}};

    snprintf(generation, sizeof(generation), "%" PRIu64, facts->generation);
    snprintf(step, sizeof(step), "%" PRIu64, facts->step);
    log_event(LOG_LEVEL_INFO, fields, ARRAY_COUNT(fields), "job %s: %s", facts->job, text);
}

/* JSON cannot hold bytes that are not UTF-8: replace them by question marks. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    AUTO_FREE char *plain = value ? NULL : strdup(text);

    for (char *at = plain; at && *at; at++)
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    return value ? value : plain ? json_string(plain) : NULL;
}

static json_t *event_line(const struct event_facts *facts, const char *kind, const char *text)
{
    uint64_t now_ns = clock_unix_ns();
    json_t *line =
        json_pack("{s:I, s:s, s:s, s:s, s:o, s:I, s:I}", "unix_ns", (json_int_t)now_ns, "job",
                  facts->job, "node", facts->node, "kind", kind, "text", text_value(text),
                  "generation", (json_int_t)facts->generation, "step", (json_int_t)facts->step);

    if (line && facts->pause_seconds >= 0 &&
        json_object_set_new(line, "pause_ms", json_real(facts->pause_seconds * 1e3))) {
        json_decref(line);
        return NULL;
    }
    return line;
}

/* Rotate the file when it is too large. After a failure, retry once per KEPT_BYTES appended. */
static void bound_file(int file, const char *path, off_t line_bytes)
{
    const off_t kept = (off_t)KEPT_BYTES;
    struct stat found;
    struct error error = {0};

    if (fstat(file, &found) || found.st_size <= FILE_BYTES_MAX)
        return;
    off_t before = found.st_size - line_bytes;
    if ((before <= FILE_BYTES_MAX || before / kept != found.st_size / kept) &&
        lines_rotate(path, KEPT_BYTES, &error))
        log_warning("%s", error.text);
}

void events_append(const char *job_dir, const struct event_facts *facts, const char *kind,
                   const char *text)
{
    char path[1024];
    AUTO_JSON json_t *line = event_line(facts, kind, text);
    AUTO_FREE char *words = line ? json_text(line) : NULL;
    AUTO_CLOSE int file = -1;

    log_it(facts, text);
    snprintf(path, sizeof(path), "%s/events.jsonl", job_dir);
    file = words ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    int line_bytes = file < 0 ? -1 : dprintf(file, "%s\n", words);
    if (line_bytes < 0)
        log_warning("%s: %s; the event above is only in the log", path, strerror(errno));
    else
        bound_file(file, path, line_bytes);
}
