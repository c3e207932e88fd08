/*
 * A checkpoint is recorded soon after its shares are durable. It does not wait for the end of a
 * long step.
 */
#include "sim/check/sim_check.h"
#include "sim/fault/sim_cuts.h"
#include "sim/fault/sim_faults.h"
#include "sim/node/sim_store.h"
#include "sim/worker/sim_worker.h"

/* Much longer than shares, copies, commit and record take. Ranks vote and look for the commit
 * between micro-batches. */
#define LATE_NS (30 * NS_PER_SECOND)
#define LOOKS   4 /* a vote goes up the tree and down, then the commit, then its result */

static bool is_disturbed(const struct sim *sim, uint64_t since_ns)
{
    const struct sim_faults *faults = sim->faults;
    return faults->disturbing > 0 || faults->disturbed_ns >= since_ns ||
           faults->store_disturbed_ns >= since_ns || sim->store->down ||
           sim->store->lost_answers_percent > 0 || sim_cuts_any(sim) || sim->disk->broken ||
           sim->disk->brittle;
}

void sim_check_late(struct sim *sim, const struct plan *plan, uint64_t step)
{
    const struct sim_check *check = sim->check;
    const struct sim_witness *begins =
        &check->begins[plan->generation % ARRAY_COUNT(check->begins)];
    uint64_t all = ((uint64_t)1 << plan->layout.worker_count) - 1;
    if (begins->generation != plan->generation || begins->step + 1 != step ||
        begins->ranks != all || check->committing_generation != plan->generation ||
        check->committed_ns + LATE_NS + LOOKS * sim_division_longest_ns(sim) > sim->now_ns ||
        is_disturbed(sim, check->committed_ns))
        return;
    if (check->newest_record < begins->step)
        sim_fail(sim, "the checkpoint of step %llu is not recorded %.0f s after it was begun",
                 (unsigned long long)begins->step,
                 (double)(sim->now_ns - check->committed_ns) / 1e9);
}
