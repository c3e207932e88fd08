#include "lib/worker/tiny_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

void tiny_state_init(struct tiny_state *tiny, bool tied)
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

void tiny_state_done(struct tiny_state *tiny)
{
    state_free(tiny->state);
    kernel_cpu()->close(tiny->device);
}
