/*
 * Decide how long the leader waits after a failure for each worker's report. Private to the leader.
 *
 * A silent worker gets failure_timeout from when the failure was first seen. A silent worker that
 * its peers accuse, or that has no rank any more, gets TIMEOUT_PARTS_ACCUSED of that; where the job
 * would fall back to a checkpoint, it gets the whole time. Workers that no peer accuses, and that
 * may have a unit that is missing otherwise, get several times failure_timeout. In a generation
 * that is just beginning such workers get until every worker that waits for links there has given
 * up.
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
