/*
 * Copies of checkpoints that nodes took with them when they went are made again on those that are
 * left: of the newest one, and of pinned ones. In the background, on a thread of its own that rests
 * as long as it works (checkpoint/replicate/copy_steps.h); training never waits for it.
 *
 * Each node finds out for itself what is its to copy (daemon/jobs/copying_choice.h), waits a while
 * in case the plan changes again, copies, and notes in the commit record what it has. Two nodes
 * that note at once are no harm: the one that comes too late looks again.
 */
#pragma once

#include "daemon/jobs/job.h"

/** copying_sync() - look soon whether something is missing */
void copying_sync(struct job *job);
/** copying_stop() - give up what is under way; waits until it has ended */
void copying_stop(struct job *job);
