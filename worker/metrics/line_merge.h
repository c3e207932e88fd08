/*
 * Merge the metrics lines of two nodes.
 *
 * If both nodes have a line of a step, this node's line stays. The exception is a line with other
 * bits from a later generation: a step is recomputed to other bits only after a dispute, and this
 * node had no part in the recomputation.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "worker/metrics/exact_steps.h"

/* The lines of one node; all borrowed. */
struct merge_side {
    const struct exact_steps *steps; /* one for each line of @text */
    const struct bytes *text;
};

/** line_merge_learns() - return whether @theirs has a line that a merge would add to @mine */
bool line_merge_learns(const struct exact_steps *mine, const struct exact_steps *theirs);

/** line_merge() - append the lines of both sides in step order to @into; -ENOMEM; -EBADMSG: a text
 * has fewer lines than its steps, because another process writes to the file */
int line_merge(const struct merge_side *mine, const struct merge_side *theirs,
               struct bytes *into) CHECK_RESULT;
