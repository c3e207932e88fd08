#include "elastic/leader/leader_starting.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static bool starts(const struct roster_member *member)
{
    return member->report && (member->seat == SEAT_JOINING || member->seat == SEAT_SPARE) &&
           member->report->phase == WORKER_STARTING && member->report->cause == CAUSE_STARTS;
}

/* Return a hash of the progress of starting workers: it changes with each report of progress, and
 * when a worker has started. 0: no worker reports progress. */
static uint64_t mark_of(const struct leader_context *context)
{
    uint64_t mark = 0;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!starts(member))
            continue;
        const char *text = member->report->text;
        mark += hash_xxh3(text, strlen(text)).low + member->report->instance;
    }
    return mark;
}

void leader_starting_note(struct leader_context *context)
{
    struct leader_memory *memory = context->memory;
    uint64_t mark = mark_of(context);
    if (mark == memory->starting_mark)
        return;
    memory->starting_mark = mark;
    memory->starting_ns = context->view->now_ns;
}

uint64_t leader_start_counts_from(const struct leader_context *context)
{
    return MAX(context->memory->published.ns, context->memory->starting_ns);
}

/* Return a starting worker, one that does not wait for another if possible: its text has the
 * progress. */
static const struct roster_member *find_starter(const struct leader_context *context)
{
    const struct roster_member *found = NULL;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!starts(member))
            continue;
        found = member;
        if (strcmp(member->report->text, REPORT_WAITS_FOR_READER) != 0)
            return member;
    }
    return found;
}

const char *leader_starting_words(const struct leader_context *context, char *text,
                                  size_t size_bytes)
{
    const struct roster_member *starter = find_starter(context);
    if (!starter)
        return NULL;
    snprintf(text, size_bytes, "%s/%u: %.100s", starter->node_name, starter->slot,
             starter->report->text);
    return text;
}

void leader_starting_say(struct leader_context *context)
{
    char words[NAME_SIZE + 128];
    unsigned count = 0;
    for (unsigned i = 0; i < context->roster.count; i++)
        count += starts(&context->roster.members[i]);
    if (count > 0)
        leader_add(context, "; %u worker%s still starting (%s)", count,
                   count == 1 ? " is" : "s are",
                   leader_starting_words(context, words, sizeof(words)));
}
