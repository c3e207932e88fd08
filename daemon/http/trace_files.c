#include "daemon/http/trace_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "elastic/messages/report.h"
#include "elastic/messages/trace_entry.h"

#define PATH_SIZE 1500

/* Describe the ring at @path. Return 0; -ENOENT: there is none. */
static int describe(const char *path, struct trace_entry *entry)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    uint8_t bytes[sizeof(struct trace_head)];
    struct trace_facts facts = {0};
    struct error error = {0};
    ssize_t size_bytes = file < 0 ? -1 : pread(file, bytes, sizeof(bytes), 0);

    if (size_bytes < 0 && errno == ENOENT)
        return -ENOENT;
    if (size_bytes < 0)
        snprintf(entry->problem, sizeof(entry->problem), "%s", strerror(errno));
    else if (trace_head_decode(bytes, (size_t)size_bytes, &facts, &error))
        snprintf(entry->problem, sizeof(entry->problem), "%.*s", (int)sizeof(entry->problem) - 1,
                 error.text);
    entry->pid = MIN(facts.pid, (unsigned)INT32_MAX);
    entry->newest_step = facts.newest_step;
    return 0;
}

int trace_files_list(const char *folder, struct bytes *body, struct error *error)
{
    char path[PATH_SIZE], name[TRACE_RING_NAME_SIZE];
    size_t size_before = body->size_bytes;
    int status = 0;

    for (unsigned i = 0; !status && i < REPORT_WORKERS_MAX * TRACE_RINGS_MAX; i++) {
        struct trace_entry entry = {.slot = i / TRACE_RINGS_MAX, .age = i % TRACE_RINGS_MAX};
        trace_ring_name(entry.slot, entry.age, name);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        if (!describe(path, &entry))
            status = trace_entry_append(&entry, body);
    }
    if (status)
        return error_set(error, status, "no memory for the answer");
    if (body->size_bytes == size_before)
        return error_set(error, -ENOENT, "no worker of this job has left a trace here");
    return 0;
}

int trace_files_read(const char *path, const struct trace_query *query, struct bytes *body,
                     struct error *error)
{
    CLEANUP(bytes_done) struct bytes ring = {0};
    int status = file_read(path, TRACE_RING_BYTES, &ring, error);

    return status ? status : trace_ring_select(ring.data, ring.size_bytes, query, body, error);
}
