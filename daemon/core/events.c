#include "daemon/core/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

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
    uint64_t now_ns = clock_real()->realtime_ns(clock_real()->context);
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
    if (file < 0 || dprintf(file, "%s\n", words) < 0)
        log_warning("%s: %s; the event above is only in the log", path, strerror(errno));
}
