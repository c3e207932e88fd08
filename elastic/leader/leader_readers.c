#include "elastic/leader/leader_readers.h"

#include <string.h>

#include "base/timeouts.h"

static bool is_about(const struct leader_context *context, const struct leader_reader *reader,
                     const struct member *node)
{
    return reader->incarnation == node->incarnation && strcmp(reader->node, node->name) == 0 &&
           reader->step == context->view->checkpoint.step;
}

/* Return the node's entry; if there is none, the entry that expires first. */
static struct leader_reader *entry_of(const struct leader_context *context,
                                      const struct member *node)
{
    struct leader_reader *readers = context->memory->readers, *oldest = &readers[0];
    for (unsigned i = 0; i < LEADER_READERS_MAX; i++) {
        if (is_about(context, &readers[i], node))
            return &readers[i];
        if (readers[i].until_ns < oldest->until_ns)
            oldest = &readers[i];
    }
    return oldest;
}

void leader_readers_note(struct leader_context *context)
{
    const struct leader_view *view = context->view;
    const struct plan *plan = view->plan;
    if (!plan || plan->start.source != PLAN_SOURCE_CHECKPOINT ||
        plan->start.resume_step != view->checkpoint.step)
        return;
    for (unsigned i = 0; i < context->roster.count; i++) {
        const struct roster_member *member = &context->roster.members[i];
        if (!member->node || member->seat != SEAT_BROKEN ||
            member->report->cause != CAUSE_CHECKPOINT_AWAY ||
            member->report->generation != plan->generation)
            continue;
        struct leader_reader *reader = entry_of(context, member->node);
        reader->incarnation = member->node->incarnation;
        reader->step = view->checkpoint.step;
        reader->until_ns = view->now_ns + TIMEOUTS_CHECKPOINT_READER * view->failure_timeout_ns;
        memcpy(reader->node, member->node->name, sizeof(reader->node));
    }
}

bool leader_readers_lack(const struct leader_context *context, const struct member *node)
{
    for (unsigned i = 0; i < LEADER_READERS_MAX; i++) {
        const struct leader_reader *reader = &context->memory->readers[i];
        if (reader->until_ns > context->view->now_ns && is_about(context, reader, node))
            return true;
    }
    return false;
}
