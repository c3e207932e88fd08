/* Retry and backoff for checkpoints that cannot be read just now, and for generations that fail to
 * begin. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

/**
 * leader_retry_waits() - return whether a generation from the newest checkpoint within reach must
 * not begin yet; says why, and sets the next wake-up
 * @state: the job's state meanwhile
 *
 * The generation waits in three cases:
 * - A newer checkpoint is away with its nodes: they get a while to come back.
 * - The plan in force began from this very checkpoint, or like the next plan from the job's
 *   beginning, and did not reach its first step: the job retries at once, and from then on after a
 *   pause that doubles. If the checkpoint cannot be read, it is given up after a while
 *   (decision->gives_up_checkpoint), provided that an older one, or step 0, can take its place.
 * - All recorded checkpoints are damaged: the operator is asked, because only step 0 is left.
 */
bool leader_retry_waits(struct leader_context *context, enum job_state state);

/**
 * leader_retry_takes_back() - return whether the checkpoints that were given up are the last hope
 *
 * One was given up for an older checkpoint, and that one turned out damaged, or its nodes went
 * away: the one out of reach may be sound, and is tried again (decision->takes_back_checkpoints).
 */
bool leader_retry_takes_back(struct leader_context *context, enum job_state state);

/**
 * leader_retry_waits_in_memory() - return whether a generation that goes on from @step, which is in
 * the workers' memory, must not begin yet
 *
 * The plan in force went on from that step, too, and came no further: retry and pause as in
 * leader_retry_waits().
 */
bool leader_retry_waits_in_memory(struct leader_context *context, uint64_t step);
