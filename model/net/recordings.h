/*
 * What a stage calls again and again with the same arguments, recorded once and replayed as one
 * call (kernel->record_begin): a GPU gets its work faster than it is done, however small the model.
 *
 *     while (recordings_next(recordings, &key))
 *         ... the calls of @key ...
 *
 * The first time the calls are only made: what a library prepares at its first use it does outside
 * of a recording. The second time they are recorded. From the third time on the loop's body does
 * not run.
 *
 * A backend that cannot record, or fails to once, has the calls made every time; the failure is
 * logged. A replay is the same kernels with the same arguments in the same order, so the bits are
 * the same. Recordings go with the stage: when layers freeze or the layout changes all addresses
 * are others.
 */
#pragma once

#include "kernels/kernel.h"

/* Everything that the calls depend on beside the stage. Compared member by member. */
struct recording_key {
    unsigned place; /* below the count of recordings_new(): few keys share one */
    const void *weights;
    const float *gradient;
    bool want_input_gradient;
};

struct recordings;

/** recordings_new() - -ENOMEM */
int recordings_new(const struct kernel *kernel, struct kernel_device *device, unsigned place_count,
                   struct recordings **ret_recordings) CHECK_RESULT;
/** recordings_free() - nothing of the compute queue replays them any more; NULL allowed */
void recordings_free(struct recordings *recordings);

/** recordings_next() - whether the calls of @key are to be made (now, or once more) */
bool recordings_next(struct recordings *recordings, const struct recording_key *key);

/** recordings_forget() - something that no key names has changed */
void recordings_forget(struct recordings *recordings);
