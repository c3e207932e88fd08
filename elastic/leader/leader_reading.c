#include "elastic/leader/leader_reading.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static bool reads(const struct roster_member *member)
{
    return member->report && (member->seat == SEAT_JOINING || member->seat == SEAT_SPARE) &&
           member->report->phase == WORKER_STARTING && member->report->cause == CAUSE_READING;
}

/* Return a hash of the readers' progress: it changes with each progress report of a reader, and
 * when a reader is done. 0: no worker reads. */
static uint64_t mark_of(const struct leader_context *context)
{
    uint64_t mark = 0;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!reads(member))
            continue;
        const char *text = member->report->text;
        mark += hash_xxh3(text, strlen(text)).low + member->report->instance;
    }
    return mark;
}

void leader_reading_note(struct leader_context *context)
{
    struct leader_memory *memory = context->memory;
    uint64_t mark = mark_of(context);
    if (mark == memory->reading_mark)
        return;
    memory->reading_mark = mark;
    memory->reading_ns = context->view->now_ns;
}

uint64_t leader_start_counts_from(const struct leader_context *context)
{
    return MAX(context->memory->published_ns, context->memory->reading_ns);
}

/* Return a worker that reads itself, if there is one: its text has the progress. */
static const struct roster_member *find_reader(const struct leader_context *context)
{
    const struct roster_member *found = NULL;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!reads(member))
            continue;
        found = member;
        if (strcmp(member->report->text, REPORT_WAITS_FOR_READER) != 0)
            return member;
    }
    return found;
}

const char *leader_reading_words(const struct leader_context *context, char *text,
                                 size_t size_bytes)
{
    const struct roster_member *reader = find_reader(context);
    if (!reader)
        return NULL;
    snprintf(text, size_bytes, "%s/%u: %.100s", reader->node_name, reader->slot,
             reader->report->text);
    return text;
}

void leader_reading_say(struct leader_context *context)
{
    char words[NAME_SIZE + 128];
    unsigned count = 0;
    for (unsigned i = 0; i < context->roster.count; i++)
        count += reads(&context->roster.members[i]);
    if (count > 0)
        leader_add(context, "; %u worker%s still reading the training data (%s)", count,
                   count == 1 ? " is" : "s are",
                   leader_reading_words(context, words, sizeof(words)));
}
