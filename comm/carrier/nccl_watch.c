#include "comm/carrier/nccl_watch.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

void nccl_watch_init(struct nccl_watch *watch, uint64_t abort_timeout_ns)
{
    *watch = (struct nccl_watch){.abort_timeout_ns = abort_timeout_ns, .deadline_ns = UINT64_MAX};
}

static enum nccl_action fail(struct nccl_watch *watch, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum nccl_action fail(struct nccl_watch *watch, uint64_t now_ns, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(watch->reason, sizeof(watch->reason), format, arguments);
    va_end(arguments);
    watch->phase = NCCL_ABORTING;
    if (__builtin_add_overflow(now_ns, watch->abort_timeout_ns, &watch->deadline_ns))
        watch->deadline_ns = UINT64_MAX;
    return NCCL_DO_ABORT;
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
    case NCCL_TICK:
    case NCCL_ABORT_RETURNED:
        break;
    }
    if (event->now_ns < watch->deadline_ns)
        return NCCL_DO_NOTHING;
    return fail(watch, event->now_ns, "NCCL: no answer in time while %s", watch->step);
}

enum nccl_action nccl_watch_feed(struct nccl_watch *watch, const struct nccl_event *event)
{
    if (watch->phase == NCCL_OPEN)
        return open_fed(watch, event);
    if (watch->phase != NCCL_ABORTING)
        return NCCL_DO_NOTHING;
    if (event->type == NCCL_ABORT_RETURNED) {
        watch->phase = NCCL_ABORTED;
        watch->deadline_ns = UINT64_MAX;
    } else if (event->now_ns >= watch->deadline_ns) {
        watch->phase = NCCL_HOPELESS;
        watch->deadline_ns = UINT64_MAX;
        return NCCL_DO_EXIT;
    }
    return NCCL_DO_NOTHING;
}
