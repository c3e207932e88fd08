#include "comm/carrier/nccl_watch.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

void nccl_watch_init(struct nccl_watch *watch, uint64_t close_timeout_ns, uint64_t abort_timeout_ns)
{
    *watch = (struct nccl_watch){.close_timeout_ns = close_timeout_ns,
                                 .abort_timeout_ns = abort_timeout_ns,
                                 .deadline_ns = UINT64_MAX};
}

static uint64_t later(uint64_t now_ns, uint64_t timeout_ns)
{
    return now_ns > UINT64_MAX - timeout_ns ? UINT64_MAX : now_ns + timeout_ns;
}

static enum nccl_action enter(struct nccl_watch *watch, enum nccl_phase phase, uint64_t deadline_ns,
                              enum nccl_action action)
{
    watch->phase = phase;
    watch->deadline_ns = deadline_ns;
    return action;
}

static enum nccl_action fail(struct nccl_watch *watch, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum nccl_action fail(struct nccl_watch *watch, uint64_t now_ns, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(watch->reason, sizeof(watch->reason), format, arguments);
    va_end(arguments);
    return enter(watch, NCCL_ABORTING, later(now_ns, watch->abort_timeout_ns), NCCL_DO_ABORT);
}

static enum nccl_action open_fed(struct nccl_watch *watch, const struct nccl_event *event)
{
    switch (event->type) {
    case NCCL_STEP:
        snprintf(watch->step, sizeof(watch->step), "%s", event->text);
        watch->deadline_ns = event->deadline_ns;
        return NCCL_DO_NOTHING;
    case NCCL_STATE:
        if (event->result == NCCL_RESULT_SUCCESS) {
            watch->step[0] = '\0';
            watch->deadline_ns = UINT64_MAX;
            return NCCL_DO_NOTHING;
        }
        if (event->result != NCCL_RESULT_IN_PROGRESS)
            return fail(watch, event->now_ns, "NCCL: %s%s%s", event->text,
                        watch->step[0] ? " while " : "", watch->step);
        break;
    case NCCL_FAULT:
        return fail(watch, event->now_ns, "%s", event->text);
    case NCCL_CLOSE:
        snprintf(watch->reason, sizeof(watch->reason), "%s", event->text);
        return enter(watch, NCCL_CLOSING, later(event->now_ns, watch->close_timeout_ns),
                     NCCL_DO_FINALIZE);
    case NCCL_TICK:
    case NCCL_FINALIZED:
    case NCCL_RETURNED:
        break;
    }
    if (event->now_ns < watch->deadline_ns)
        return NCCL_DO_NOTHING;
    return fail(watch, event->now_ns, "NCCL: no answer in time while %s", watch->step);
}

static enum nccl_action closing_fed(struct nccl_watch *watch, const struct nccl_event *event)
{
    if (event->type == NCCL_FINALIZED)
        return enter(watch, NCCL_DESTROYING, later(event->now_ns, watch->abort_timeout_ns),
                     NCCL_DO_DESTROY);
    if (event->type == NCCL_FAULT)
        return fail(watch, event->now_ns, "%s", event->text);
    if (event->type == NCCL_STATE && event->result != NCCL_RESULT_SUCCESS &&
        event->result != NCCL_RESULT_IN_PROGRESS)
        return fail(watch, event->now_ns, "NCCL: %s while closing", event->text);
    if (event->now_ns >= watch->deadline_ns)
        return fail(watch, event->now_ns, "NCCL: no answer in time while closing");
    return NCCL_DO_NOTHING;
}

/* Process an event while a thread of its own runs the calls that end the communicators. */
static enum nccl_action ending_fed(struct nccl_watch *watch, const struct nccl_event *event,
                                   enum nccl_phase end)
{
    if (event->type == NCCL_RETURNED)
        return enter(watch, end, UINT64_MAX, NCCL_DO_NOTHING);
    if (event->now_ns >= watch->deadline_ns)
        return enter(watch, NCCL_HOPELESS, UINT64_MAX, NCCL_DO_EXIT);
    return NCCL_DO_NOTHING;
}

enum nccl_action nccl_watch_feed(struct nccl_watch *watch, const struct nccl_event *event)
{
    switch (watch->phase) {
    case NCCL_OPEN:
        return open_fed(watch, event);
    case NCCL_CLOSING:
        return closing_fed(watch, event);
    case NCCL_DESTROYING:
        return ending_fed(watch, event, NCCL_CLOSED);
    case NCCL_ABORTING:
        return ending_fed(watch, event, NCCL_ABORTED);
    case NCCL_CLOSED:
    case NCCL_ABORTED:
    case NCCL_HOPELESS:
        break;
    }
    return NCCL_DO_NOTHING;
}
