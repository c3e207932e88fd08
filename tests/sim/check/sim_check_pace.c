/*
 * Bound the generations per minute, for any cause. Each generation is written to etcd, sent to
 * every node and logged, so the leader must pause after a generation that fails at once.
 */
#include "sim/check/sim_check.h"

#define MINUTE_NS (60 * NS_PER_SECOND)

void sim_check_pace(struct sim *sim)
{
    struct sim_pace *pace = &sim->check->pace;
    size_t place = pace->count++ % ARRAY_COUNT(pace->at_ns);
    uint64_t earlier_ns = pace->at_ns[place];
    pace->at_ns[place] = sim->now_ns;
    if (pace->count > ARRAY_COUNT(pace->at_ns) && sim->now_ns - earlier_ns < MINUTE_NS)
        sim_fail(sim, "%zu generations in %.1f s", ARRAY_COUNT(pace->at_ns) + 1,
                 (double)(sim->now_ns - earlier_ns) / 1e9);
}
