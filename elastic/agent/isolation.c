#include "elastic/agent/isolation.h"

#include "base/compiler.h"

static uint64_t percent(uint64_t ttl_ns, unsigned percent)
{
    return ttl_ns / 100 * percent;
}

bool isolation_doubts(uint64_t left_ns, uint64_t ttl_ns)
{
    return left_ns <= percent(ttl_ns, ISOLATION_DOUBT_PERCENT);
}

enum isolation isolation_judge(const struct isolation_view *view)
{
    if (!isolation_doubts(view->left_ns, view->ttl_ns))
        return ISOLATION_NONE;
    if (view->knows_neighbours && view->neighbour_count == 0 && view->reaching == 0)
        return ISOLATION_SHARED;
    if (view->left_ns > percent(view->ttl_ns, ISOLATION_HOLD_PERCENT))
        return ISOLATION_DOUBT;
    return view->reaching == 0 && view->away > 0 ? ISOLATION_SHARED : ISOLATION_ALONE;
}
