/* A training state of a model small enough for a test to check every element. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "elastic/job/job_spec.h"
#include "worker/state/state.h"

struct tiny_state {
    struct job_spec spec;
    struct kernel_device *device;
    struct state *state;
};

static inline void tiny_state_init(struct tiny_state *tiny, bool tied)
{
    struct error error = {0};

    *tiny = (struct tiny_state){0};
    snprintf(tiny->spec.name, sizeof(tiny->spec.name), "tiny");
    snprintf(tiny->spec.model.family, sizeof(tiny->spec.model.family), "gpt2");
    tiny->spec.model.layers = 3;
    tiny->spec.model.width = 8;
    tiny->spec.model.heads = 2;
    tiny->spec.model.context = 4;
    tiny->spec.model.vocab = 10;
    tiny->spec.model.tied = tied;
    tiny->spec.train.seed = 1;
    if (kernel_cpu()->open(&(struct kernel_options){.thread_count = 1}, &tiny->device, &error) ||
        state_new(&tiny->spec, kernel_cpu(), tiny->device, &tiny->state, &error))
        fail_msg("%s", error.text);
}

static inline void tiny_state_done(struct tiny_state *tiny)
{
    state_free(tiny->state);
    kernel_cpu()->close(tiny->device);
}
