/*
 * How long the leader waits after a failure for those whom it has not heard of. Private to the
 * leader.
 *
 * Who is silent is waited for until failure_timeout after the failure was first seen; who is silent
 * and accused by its peers, or has no rank any more, an eighth of that. Where the job would fall
 * back to a checkpoint the accused get the whole time. Those whom nobody accuses, and without whom
 * a unit is missing that they may have, get several times as much, and in a generation that is just
 * beginning until all who wait for links there have given up.
 */
#pragma once

#include "elastic/leader/leader_survivors.h"

/**
 * leader_patience_lasts() - wait for those not yet heard of? Sets when to look again
 * @falls_back: without them the job goes back to a checkpoint
 */
bool leader_patience_lasts(struct leader_context *context, const struct leader_survivors *survivors,
                           bool falls_back);
