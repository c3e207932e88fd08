/*
 * Replace checkpoint copies whose nodes have left: make new copies of the newest checkpoint, and of
 * pinned ones, on the remaining nodes. This runs in the background, on a separate thread
 * that rests for half of the time (checkpoint/replicate/receive.h); training never waits for it.
 *
 * Each node chooses its own copies (daemon/jobs/copying_choice.h), waits a while in case the plan
 * changes again, copies, and notes its copies in the commit record. If two nodes note copies at the
 * same time, the later transaction fails and that node tries again.
 */
#pragma once

#include "daemon/jobs/job.h"

/** copying_sync() - check soon whether copies are missing */
void copying_sync(struct job *job);
/** copying_stop() - cancel the copying; wait until its thread has ended */
void copying_stop(struct job *job);
