#include "elastic/agent/slot_backoff.h"

#include "base/compiler.h"
#include "base/timeouts.h"

uint64_t slot_backoff_take_out(struct slot_backoff *backoff, uint64_t now_ns,
                               uint64_t failure_timeout_ns)
{
    uint64_t pause_ns = TIMEOUTS_SLOT_BACKOFF_MIN * failure_timeout_ns;
    if (backoff->is_out)
        return backoff->until_ns;
    if (slot_backoff_watches(backoff, now_ns))
        pause_ns = MIN(2 * backoff->pause_ns, TIMEOUTS_SLOT_BACKOFF_MAX * failure_timeout_ns);
    *backoff =
        (struct slot_backoff){.pause_ns = pause_ns, .until_ns = now_ns + pause_ns, .is_out = true};
    return backoff->until_ns;
}

bool slot_backoff_try(struct slot_backoff *backoff, uint64_t now_ns, uint64_t failure_timeout_ns)
{
    if (!backoff->is_out || now_ns < backoff->until_ns)
        return false;
    backoff->is_out = false;
    backoff->until_ns = now_ns + TIMEOUTS_SLOT_BACKOFF_GOOD * failure_timeout_ns;
    return true;
}

bool slot_backoff_watches(const struct slot_backoff *backoff, uint64_t now_ns)
{
    return backoff->pause_ns != 0 && !backoff->is_out && now_ns < backoff->until_ns;
}
