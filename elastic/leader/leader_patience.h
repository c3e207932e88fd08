/*
 * Decide how long the leader waits for each worker's report after a failure. Private to the leader.
 *
 * A silent worker gets failure_timeout from when the failure was first seen. A silent worker that
 * its peers accuse, or that has no rank any more, gets TIMEOUT_PARTS_ACCUSED of that time, or all
 * of it if the job would fall back to a checkpoint. Workers that no peer accuses, and that may have
 * an otherwise missing unit, get several times failure_timeout. In a generation that is just
 * beginning, the leader waits for such workers until every worker that waits for links there has
 * given up.
 */
#pragma once

#include "elastic/leader/leader_survivors.h"

/**
 * leader_patience_lasts() - return whether to wait for workers that have not reported; sets the
 * next wake-up
 * @falls_back: without their reports the job goes back to a checkpoint
 */
bool leader_patience_lasts(struct leader_context *context, const struct leader_survivors *survivors,
                           bool falls_back);
