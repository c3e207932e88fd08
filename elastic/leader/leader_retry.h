/* Retry and backoff for checkpoints that cannot be read just now, and for generations that fail to
 * begin. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

/**
 * leader_retry_waits() - return whether a generation from the newest checkpoint within reach must
 * not begin yet; says why, and sets the next wake-up
 * @state: the job's state during the wait
 *
 * The generation waits in three cases:
 * - A newer checkpoint is away with its nodes, which get some time to come back.
 * - The plan in force began from this very checkpoint or, like the next plan, from the job's
 *   beginning, and did not reach its first step. The job retries at once, and then after a pause
 *   that doubles each time. An unreadable checkpoint is given up after a while
 *   (decision->gives_up_checkpoint) if an older one, or step 0, can take its place.
 * - All recorded checkpoints are damaged: the operator is asked, because only step 0 is left.
 */
bool leader_retry_waits(struct leader_context *context, enum job_state state);

/**
 * leader_retry_takes_back() - return whether the given-up checkpoints are the last hope
 *
 * A checkpoint was given up for an older one, which turned out damaged, or whose nodes went away.
 * The given-up one may be sound, and is tried again (decision->takes_back_checkpoints).
 */
bool leader_retry_takes_back(struct leader_context *context, enum job_state state);

/**
 * leader_retry_waits_in_memory() - return whether a generation that continues from @step in the
 * workers' memory must not begin yet
 *
 * The plan in force also continued from that step, and did not get further: retry and pause as in
 * leader_retry_waits().
 */
bool leader_retry_waits_in_memory(struct leader_context *context, uint64_t step);
