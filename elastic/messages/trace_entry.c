#include "elastic/messages/trace_entry.h"

#include <errno.h>

#include "base/json.h"
#include "elastic/messages/trace_ring.h"

#define SLOT_MAX 65535u

int trace_entry_append(const struct trace_entry *entry, struct bytes *into)
{
    AUTO_JSON json_t *tree = json_pack(
        "{s:I, s:I, s:I, s:I, s:s}", "slot", (json_int_t)entry->slot, "age", (json_int_t)entry->age,
        "pid", (json_int_t)entry->pid, "newest_step",
        (json_int_t)MIN(entry->newest_step, (uint64_t)INT64_MAX), "problem", entry->problem);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    return text ? bytes_append_format(into, "%s\n", text) : -ENOMEM;
}

int trace_entry_parse(const char *line, size_t length, struct trace_entry *ret_entry,
                      struct error *error)
{
    AUTO_JSON json_t *tree = NULL;
    struct trace_entry entry = {0};
    int status = json_parse(line, length, "a list of traces", &tree, error);

    if (!status)
        status = json_get_unsigned(tree, "slot", SLOT_MAX, &entry.slot, error);
    if (!status)
        status = json_get_unsigned(tree, "age", TRACE_RINGS_MAX - 1, &entry.age, error);
    if (!status)
        status = json_get_unsigned(tree, "pid", INT32_MAX, &entry.pid, error);
    if (!status)
        status = json_get_u64(tree, "newest_step", INT64_MAX, &entry.newest_step, error);
    if (!status)
        status = json_get_text(tree, "problem", entry.problem, sizeof(entry.problem), error);
    if (!status)
        *ret_entry = entry;
    return status;
}
