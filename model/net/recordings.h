/*
 * Record the kernel calls that a stage repeats with the same arguments, and replay them as one call
 * (kernel->record_begin). So the host submits work faster than the GPU completes it, even for a
 * small model.
 *
 *     while (recordings_next(recordings, &key))
 *         ... the calls of @key ...
 *
 * The first time the calls are only made, so that a library's preparations at its first use are not
 * part of a recording. The second time they are recorded. From the third time on the loop's body
 * does not run.
 *
 * A backend that cannot record, or fails to once, has the calls made every time; the failure is
 * logged. A replay is the same kernels with the same arguments in the same order, so the bits are
 * the same. Recordings are freed with the stage: all addresses change when layers freeze or the
 * layout changes.
 */
#pragma once

#include "kernels/kernel.h"

/* The inputs of the calls besides the stage. Compared member by member. */
struct recording_key {
    unsigned place; /* below the place count of recordings_new(); few keys share a place */
    const void *weights;
    const float *gradient;
    bool want_input_gradient;
};

struct recordings;

/** recordings_new() - make an empty set of recordings; -ENOMEM */
int recordings_new(const struct kernel *kernel, struct kernel_device *device, unsigned place_count,
                   struct recordings **ret_recordings) CHECK_RESULT;
/** recordings_free() - free the recordings when no replay is in flight; NULL allowed */
void recordings_free(struct recordings *recordings);

/** recordings_next() - return whether the caller makes the calls of @key (now, or once more) */
bool recordings_next(struct recordings *recordings, const struct recording_key *key);

/** recordings_forget() - drop all recordings, after a change that no key contains */
void recordings_forget(struct recordings *recordings);
