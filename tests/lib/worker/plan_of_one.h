/* The smallest plan: one stage on one worker. */
#pragma once

#include "elastic/plan/plan.h"

/** plan_of_one() - Return generation 7 of the job "tiny", all units and lanes on rank 0; free it
 * with plan_free() */
struct plan *plan_of_one(unsigned unit_count, unsigned lane_count);

/** plan_of_one_keeps_copies() - Make checkpoints go through shares, receipts and seals, on the
 * only node, "a" */
void plan_of_one_keeps_copies(struct plan *plan);
