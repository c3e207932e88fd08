#include "sim/trace/spot_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"

#define FILE_MAX  ((size_t)16 << 20)
#define NODES_MAX 1024

struct names {
    char *names[NODES_MAX];
    unsigned count;
};

static void forget_names(struct names *names)
{
    for (unsigned i = 0; i < names->count; i++)
        free(names->names[i]);
}

static int add_event(struct spot_trace *trace, uint64_t at_ns, unsigned node, int change)
{
    struct spot_event *grown =
        realloc(trace->events, (trace->event_count + 1) * sizeof(*trace->events));
    if (!grown)
        return -ENOMEM;
    trace->events = grown;
    trace->events[trace->event_count++] =
        (struct spot_event){.at_ns = at_ns, .node = node, .change = change};
    trace->node_count = MAX(trace->node_count, node + 1);
    trace->end_ns = at_ns;
    return 0;
}

static int find_name(struct names *names, const char *name, unsigned *ret_index)
{
    unsigned i = 0;
    while (i < names->count && strcmp(names->names[i], name) != 0)
        i++;
    if (i == NODES_MAX)
        return -E2BIG;
    if (i == names->count && !(names->names[names->count++] = strdup(name)))
        return -ENOMEM;
    *ret_index = i;
    return 0;
}

static int read_line(char *line, struct names *names, struct spot_trace *trace)
{
    char *end, *rest = line;
    const char *when = strsep(&rest, ","), *what = strsep(&rest, ","), *name = strsep(&rest, ",\r");
    unsigned node;
    if (!what || !name || *name == '\0')
        return -EINVAL;
    errno = 0;
    unsigned long long milliseconds = strtoull(when, &end, 10);
    bool adds = strcmp(what, "add") == 0;
    uint64_t at_ns = milliseconds * NS_PER_MS;
    if (errno != 0 || end == when || *end != '\0' || milliseconds > UINT64_MAX / NS_PER_MS ||
        at_ns < trace->end_ns || (!adds && strcmp(what, "remove") != 0))
        return -EINVAL;
    int status = find_name(names, name, &node);
    return status < 0 ? status : add_event(trace, at_ns, node, adds ? 1 : -1);
}

static int read_csv(char *text, const char *path, struct spot_trace *trace, struct error *error)
{
    struct names names = {.count = 0};
    unsigned number = 0;
    int status = 0;
    for (char *line = text; status == 0 && line && *line != '\0';) {
        char *next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        number++;
        status = read_line(line, &names, trace);
        line = next;
    }
    forget_names(&names);
    if (status < 0)
        return error_set(error, status, "%s:%u: not `milliseconds,add or remove,node`", path,
                         number);
    return 0;
}

/* The nodes with the highest numbers go first. */
static int read_counts(const json_t *counts, uint64_t gap_ns, struct spot_trace *trace,
                       struct error *error)
{
    unsigned there = 0;
    int status = 0;
    for (size_t i = 0; i < json_array_size(counts); i++) {
        json_int_t count = json_integer_value(json_array_get(counts, i));
        if (count < 0 || count > NODES_MAX)
            return error_set(error, -EINVAL, "\"data\"[%zu] is no number of nodes", i);
        for (; status == 0 && there < (unsigned)count; there++)
            status = add_event(trace, i * gap_ns, there, 1);
        for (; status == 0 && there > (unsigned)count; there--)
            status = add_event(trace, i * gap_ns, there - 1, -1);
        if (status < 0)
            return error_set(error, status, "no memory for a trace");
    }
    trace->end_ns = json_array_size(counts) * gap_ns;
    return 0;
}

static int read_json(const char *text, size_t size_bytes, const char *path,
                     struct spot_trace *trace, struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    json_t *metadata = NULL, *counts = NULL;
    unsigned gap_seconds = 0;
    int status = json_parse(text, size_bytes, path, &tree, error);
    if (status == 0)
        status = json_get_object(tree, "metadata", &metadata, error);
    if (status == 0)
        status = json_get_unsigned(metadata, "gap_seconds", 1u << 20, &gap_seconds, error);
    if (status == 0)
        status = json_get_array(tree, "data", 1u << 20, &counts, error);
    return status < 0 ? status : read_counts(counts, gap_seconds * NS_PER_SECOND, trace, error);
}

static unsigned most_at_once(const struct spot_trace *trace)
{
    unsigned there = 0, most = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        there = trace->events[i].change > 0 ? there + 1 : there - 1;
        most = MAX(most, there);
    }
    return most;
}

int spot_trace_read(const char *path, struct spot_trace *ret_trace, struct error *error)
{
    struct spot_trace trace = {0};
    struct bytes text = {0};
    const char *type = strrchr(path, '.');
    int status = file_read(path, FILE_MAX, &text, error);
    if (status == 0)
        status = bytes_append(&text, "", 1);
    if (status == 0 && type && strcmp(type, ".json") == 0)
        status = read_json((const char *)text.data, text.size_bytes - 1, path, &trace, error);
    else if (status == 0)
        status = read_csv((char *)text.data, path, &trace, error);
    bytes_done(&text);
    if (status < 0) {
        spot_trace_done(&trace);
        return status;
    }
    trace.most = most_at_once(&trace);
    *ret_trace = trace;
    return 0;
}

void spot_trace_done(struct spot_trace *trace)
{
    free(trace->events);
    trace->events = NULL;
}
