/* Retention: which checkpoints of a job are removed from its folder, and what crashes left there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * checkpoint_retain() - what may go, now that @step is committed
 *
 * Of the complete checkpoints up to @step the newest @keep (at least one) stay, and all pinned ones
 * and the newest that is verified on top of them (folder_marks.h), and @spared (0: none), whose
 * record stays: what was verified since it was decided is another one. Those after @step are of an
 * earlier life of the job, which went back: they stay until it has come so far again. .damaged
 * folders go with the last checkpoint as old as they are, .part folders of steps up to @step are
 * removed: whoever still writes them is too late. What is removed is renamed to .gone first,
 * durably, so a crash never leaves half a checkpoint; leftovers of such a crash are swept too. A
 * step folder whose manifest does not load is left for a person to look at.
 */
int checkpoint_retain(const char *folder, unsigned keep, uint64_t step, uint64_t spared,
                      struct error *error) CHECK_RESULT;

struct checkpoint_sweep {
    const char *folder;    /* the job's, of one node */
    const uint64_t *steps; /* those that are recorded */
    size_t step_count;
    uint64_t step;       /* of the record written last */
    uint64_t generation; /* the oldest whose workers may still be writing */
};

/**
 * checkpoint_sweep() - the same for a node that has its own part of checkpoints with copies, by the
 * records in etcd
 *
 * Complete checkpoints before @step go when they are not among @steps, and are not pinned by hand;
 * parts go when a generation before @generation has left them. Without a record nothing goes.
 */
int checkpoint_sweep(const struct checkpoint_sweep *sweep, struct error *error) CHECK_RESULT;

/** checkpoint_abandon() - remove what all parts of @step and @generation have written: the
   coordinator's duty when one part failed and the step will not be committed, lest a full disk
   stays full. 0 when nothing is there */
int checkpoint_abandon(const char *folder, uint64_t step, uint64_t generation,
                       struct error *error) CHECK_RESULT;
