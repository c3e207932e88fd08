/* How patient the leader is with checkpoints that cannot be read just now. Private to the leader.
 */
#pragma once

#include "elastic/leader_internal.h"

/**
 * leader_retry_waits() - is a generation from the newest checkpoint within reach not to begin yet?
 * @state: what the job is in meanwhile
 *
 * Either a newer checkpoint is away with its nodes, and they are given a while to come back. Or the
 * plan in force began from this very checkpoint and did not come as far as its first step: then it
 * is tried again at once, and from then on after a pause that doubles. Where that is because nobody
 * can read it, it is given up after a while (decision->gives_up_checkpoint), if an older one, or
 * step 0, can take its place. Where all that are recorded are damaged the operator is asked, for
 * then nothing but step 0 is left. Says what is waited for, and sets when to look again.
 */
bool leader_retry_waits(struct leader_context *context, enum job_state state);
