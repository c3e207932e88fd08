/*
 * How a change of layout for the sake of speed turned out: what the job knows of the layouts that
 * freezing led to. Plans carry it on, so it survives the leader (elastic/leader/leader_trial.h).
 */
#pragma once

#include <stdbool.h>

struct plan_shape {
    unsigned stages, replicas; /* 0, 0: none */
};

static inline bool plan_shape_is(const struct plan_shape *shape, unsigned stages, unsigned replicas)
{
    return shape->stages == stages && shape->replicas == replicas;
}

struct plan_trial {
    struct plan_shape before; /* the layout that this plan gave up for a faster one */
    double before_seconds;    /* a step of it, as measured */
    struct plan_shape slower; /* a layout that was given up again, since it was slower; while */
    unsigned slower_frozen;   /* so many layers are frozen it is not tried again */
};
