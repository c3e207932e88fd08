/* A training state of a model small enough for a test to check every element. */
#pragma once

#include <stdbool.h>

#include "elastic/job/job_spec.h"
#include "worker/state/state.h"

struct tiny_state {
    struct job_spec spec;
    struct kernel_device *device;
    struct state *state;
};

/** tiny_state_init() - make the state of a model; @tied: with a tied token table */
void tiny_state_init(struct tiny_state *tiny, bool tied);

/** tiny_state_done() - free the state */
void tiny_state_done(struct tiny_state *tiny);
