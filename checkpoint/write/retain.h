/* Retention: remove a job's expired checkpoints from its folder, and leftovers of crashes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"

/**
 * checkpoint_retain() - remove expired checkpoints after the commit of @step
 *
 * Of the complete checkpoints up to @step, these stay:
 * - the newest @keep (at least one);
 * - all pinned ones, and the newest verified one (folder_marks.h);
 * - @spared (0: none), whose record stays: it was the newest verified one at the time of that
 *   decision, and another one may have been verified since.
 *
 * Checkpoints after @step are from an earlier run of a job that went back: they stay until the job
 * has reached their step again. .damaged folders are removed when they are older than all
 * checkpoints that stay. .part folders of steps up to @step are removed: a worker that still writes
 * there is too late. A checkpoint is renamed to .gone first, durably, so a crash never leaves half
 * a checkpoint; leftovers of such a crash are removed too. A step folder whose manifest does not
 * load is left for an operator.
 */
int checkpoint_retain(const char *folder, unsigned keep, uint64_t step, uint64_t spared,
                      struct error *error) CHECK_RESULT;

struct checkpoint_sweep {
    const char *folder;    /* the job's folder on one node */
    const uint64_t *steps; /* the recorded steps */
    size_t step_count;
    uint64_t step;       /* step of the last record written */
    uint64_t generation; /* oldest generation whose workers may still write */
};

/**
 * checkpoint_sweep() - remove expired checkpoints from a node's own folder of checkpoints with
 * copies, by the records in etcd
 *
 * Complete checkpoints before @step are removed if they are not among @steps and not pinned. Parts
 * are removed if they are from a generation before @generation, .damaged folders if they are before
 * @step, fetched folders if they are not after @step, .copy folders if their step is not recorded.
 * Without any record only parts are removed.
 */
int checkpoint_sweep(const struct checkpoint_sweep *sweep, struct error *error) CHECK_RESULT;

/** checkpoint_sweep_parts() - remove parts of generations before @generation, whose workers are
 * gone or write in vain. Otherwise a disk with room for two checkpoints that also has an abandoned
 * part could not take a new checkpoint */
int checkpoint_sweep_parts(const char *folder, uint64_t generation,
                           struct error *error) CHECK_RESULT;

/** checkpoint_abandon() - remove the files of all parts of @step and @generation: called by the
 * coordinator when one part failed and the step will not be committed, to free the disk.
 * Return: 0 also if there are none */
int checkpoint_abandon(const char *folder, uint64_t step, uint64_t generation,
                       struct error *error) CHECK_RESULT;
