#include "ctl/cluster/event_list.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ctl/view/format.h"
#include "ctl/view/terminal.h"

void event_list_done(struct event_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->events[i].line);
    free(list->events);
    *list = (struct event_list){0};
}

static int parse(const char *line, size_t length, struct event *ret_event)
{
    AUTO_JSON json_t *tree = NULL;
    struct event event = {.pause_ms = NAN};
    int status = json_parse(line, length, "an event", &tree, NULL);

    if (!status)
        status = json_get_u64(tree, "unix_ns", INT64_MAX, &event.unix_ns, NULL);
    if (!status)
        status = json_get_text(tree, "node", event.node, sizeof(event.node), NULL);
    if (!status)
        status = json_get_text(tree, "kind", event.kind, sizeof(event.kind), NULL);
    if (!status)
        status = json_get_text(tree, "text", event.text, sizeof(event.text), NULL);
    if (!status && json_has(tree, "generation"))
        status = json_get_u64(tree, "generation", INT64_MAX, &event.generation, NULL);
    if (!status && json_has(tree, "step"))
        status = json_get_u64(tree, "step", INT64_MAX, &event.step, NULL);
    if (!status && json_has(tree, "pause_ms"))
        status = json_get_double(tree, "pause_ms", &event.pause_ms, NULL);
    if (!status)
        *ret_event = event;
    return status;
}

static int compare(const struct event *a, const struct event *b)
{
    if (a->unix_ns != b->unix_ns)
        return a->unix_ns < b->unix_ns ? -1 : 1;
    int order = strcmp(a->node, b->node);
    return order ? order : strcmp(a->text, b->text);
}

static int compare_places(const void *a, const void *b)
{
    return compare(a, b);
}

static int append(struct event_list *list, const struct event *event, const char *line,
                  size_t length)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct event *events = reallocarray(list->events, capacity, sizeof(*events));
        if (!events)
            return -ENOMEM;
        list->events = events;
        list->capacity = capacity;
    }
    char *copy = strndup(line, length);
    if (!copy)
        return -ENOMEM;
    list->events[list->count] = *event;
    list->events[list->count++].line = copy;
    return 0;
}

void event_list_order(struct event_list *list)
{
    size_t kept = 0;

    if (list->count)
        qsort(list->events, list->count, sizeof(*list->events), compare_places);
    for (size_t i = 0; i < list->count; i++) {
        struct event *event = &list->events[i];
        if (kept && compare(&list->events[kept - 1], event) == 0) {
            list->events[kept - 1].printed |= event->printed;
            free(event->line);
            continue;
        }
        if (kept < i)
            list->events[kept] = *event;
        kept++;
    }
    list->count = kept;
}

int event_list_add(struct event_list *list, const char *text, size_t size_bytes,
                   uint64_t *ret_last_ns)
{
    const char *end;
    uint64_t last_ns = 0;
    int status = 0;

    for (size_t at = 0;
         !status && at < size_bytes && (end = memchr(text + at, '\n', size_bytes - at));) {
        size_t length = (size_t)(end - (text + at));
        struct event event;
        status = parse(text + at, length, &event);
        if (!status) {
            last_ns = MAX(last_ns, event.unix_ns);
            status = append(list, &event, text + at, length);
        } else if (status != -ENOMEM) {
            status = 0; /* events are only for display: skip a damaged one */
        }
        at += length + 1;
    }
    if (ret_last_ns)
        *ret_last_ns = last_ns;
    return status;
}

/* Return whether an alarm was raised; an older firnd ends an alarm without naming it. */
static bool is_raised(const struct event *event)
{
    return !strcmp(event->kind, "alarm") && strncmp(event->text, "alarm over: ", 12) != 0 &&
           strcmp(event->text, "the alarm is over") != 0;
}

static enum terminal_color color_of(const struct event *event)
{
    static const struct {
        const char *kind;
        enum terminal_color color;
    } colors[] = {{"alarm", TERMINAL_RED},   {"worker", TERMINAL_RED},
                  {"slot", TERMINAL_RED},    {"stuck", TERMINAL_YELLOW},
                  {"refused", TERMINAL_RED}, {"checkpoint", TERMINAL_DIM},
                  {"prepare", TERMINAL_DIM}, {"training", TERMINAL_CYAN}};

    if (!strcmp(event->kind, "alarm") && !is_raised(event))
        return TERMINAL_GREEN;
    for (size_t i = 0; i < ARRAY_COUNT(colors); i++)
        if (!strcmp(event->kind, colors[i].kind))
            return colors[i].color;
    return TERMINAL_BOLD;
}

int event_append_text(const struct event *event, bool dated, struct bytes *into)
{
    char at[FORMAT_SIZE];

    return bytes_append_format(
        into, "%s%s%s  %-8s %s%s%s%s\n", terminal_color(TERMINAL_DIM),
        dated ? format_moment(event->unix_ns, at) : format_time(event->unix_ns, at),
        terminal_color(TERMINAL_PLAIN), event->node, terminal_color(color_of(event)),
        is_raised(event) ? "alarm: " : "", event->text, terminal_color(TERMINAL_PLAIN));
}
