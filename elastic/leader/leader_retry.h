/* How patient the leader is with checkpoints that cannot be read just now, and with generations
 * that do not begin. Private to the leader. */
#pragma once

#include "elastic/leader/leader_internal.h"

/**
 * leader_retry_waits() - is a generation from the newest checkpoint within reach not to begin yet?
 * @state: what the job is in meanwhile
 *
 * Either a newer checkpoint is away with its nodes, and they are given a while to come back. Or the
 * plan in force began from this very checkpoint, or like the next one from the job's beginning, and
 * did not come as far as its first step: then it is tried again at once, and from then on after a
 * pause that doubles. Where that is because nobody can read the checkpoint, it is given up after a
 * while (decision->gives_up_checkpoint), if an older one, or step 0, can take its place. Where all
 * that are recorded are damaged the operator is asked, for then nothing but step 0 is left. Says
 * what is waited for, and sets when to look again.
 */
bool leader_retry_waits(struct leader_context *context, enum job_state state);

/**
 * leader_retry_waits_in_memory() - is a generation that goes on from @step, which workers have in
 * their memory, not to begin yet?
 *
 * The plan in force went on from that step, too, and came no further: as leader_retry_waits().
 */
bool leader_retry_waits_in_memory(struct leader_context *context, uint64_t step);
