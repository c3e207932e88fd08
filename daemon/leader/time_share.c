#include "daemon/leader/time_share.h"

#include "base/clock.h"
#include "base/compiler.h"

#define BURST_NS (NS_PER_SECOND / 50)

/* Each nanosecond of other work pays for one nanosecond of deciding. */
static uint64_t debt_at(const struct time_share *share, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns > share->as_of_ns ? now_ns - share->as_of_ns : 0;

    return share->debt_ns > passed_ns ? share->debt_ns - passed_ns : 0;
}

void time_share_spend(struct time_share *share, uint64_t took_ns, uint64_t now_ns)
{
    share->debt_ns = debt_at(share, now_ns - MIN(took_ns, now_ns)) + took_ns;
    share->as_of_ns = now_ns;
}

uint64_t time_share_free_ns(const struct time_share *share, uint64_t now_ns)
{
    uint64_t debt_ns = debt_at(share, now_ns);

    return debt_ns > BURST_NS ? now_ns + (debt_ns - BURST_NS) : now_ns;
}
