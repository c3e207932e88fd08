#include "elastic/recovery/preemption.h"

#include <stdbool.h>

/* Links are shared and sizes are estimates, so the time must suffice for twice the state. */
#define MARGIN 2.0

double preemption_seconds(const struct preemption *preemption)
{
    double waiting = (double)preemption->start_ns / 1e9 + (double)preemption->boundary_ns / 1e9;

    return waiting + MARGIN * (double)preemption->alone_bytes / preemption->bytes_per_second;
}

uint64_t preemption_spare_ns(const struct preemption *preemption)
{
    double spare_seconds = (double)preemption->left_ns / 1e9 - (double)preemption->links_ns / 1e9 -
                           preemption_seconds(preemption);

    if (preemption->left_ns == UINT64_MAX)
        return UINT64_MAX;
    return spare_seconds > 0 ? (uint64_t)(spare_seconds * 1e9) : 0;
}

uint64_t preemption_checkpoint_spare_ns(const struct preemption *preemption)
{
    uint64_t left_ns = preemption->left_ns;
    uint64_t writing_ns = preemption->checkpoint_ns > 0
                              ? (uint64_t)(MARGIN * (double)preemption->checkpoint_ns)
                              : left_ns / 2;
    uint64_t taken_ns = preemption->boundary_ns + writing_ns;

    if (left_ns == UINT64_MAX)
        return UINT64_MAX;
    return left_ns > taken_ns ? left_ns - taken_ns : 0;
}

enum preemption_way preemption_decide(const struct preemption *preemption)
{
    if (preemption->left_ns == UINT64_MAX || preemption->alone_bytes == 0)
        return PREEMPTION_HAND_OVER;
    bool fits = preemption_seconds(preemption) <= (double)preemption->left_ns / 1e9;
    return fits ? PREEMPTION_HAND_OVER : PREEMPTION_CHECKPOINT;
}
