/*
 * Parameters to begin with out of a model's folder that Hugging Face's tools wrote (`model.from`),
 * instead of the seed's. What each worker reads is a function of the files, so a run from them has
 * one result on every layout, like a run from the seed.
 */
#pragma once

#include "worker/state/state.h"

/**
 * pretrained_units() - [first, first + count) as the folder of the job's spec has them, at step 0
 *
 * -EINVAL: its config.json describes another model than the job, or something that firn does not
 * do, or a tensor has another shape; -ENOENT and other errors of reading; -ENOMEM. @error names
 * folder and key.
 */
int pretrained_units(struct state *state, unsigned first, unsigned count,
                     struct error *error) CHECK_RESULT;
