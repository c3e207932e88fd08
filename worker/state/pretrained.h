/*
 * Initial parameters from a model folder in the format of Hugging Face's tools (`model.from`),
 * instead of the seed. The values depend on the files alone, so a run from them has the same result
 * on every layout, like a run from the seed.
 */
#pragma once

#include "worker/state/state.h"

/**
 * pretrained_units() - read units [first, first + count) from the folder of the job's spec, at
 * step 0
 *
 * -EINVAL: its config.json describes another model or a feature that firn does not support, or a
 * tensor has another shape; -ENOENT and other read errors; -ENOMEM. @error names folder and key.
 */
int pretrained_units(struct state *state, unsigned first, unsigned count,
                     struct error *error) CHECK_RESULT;
