/*
 * The outcome of a change of layout for speed: the job's knowledge of the layouts that followed
 * from freezing. Each plan carries it over, so it survives the leader
 * (elastic/leader/leader_trial.h).
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
    struct plan_shape before; /* the layout that this plan replaced by a faster one */
    double before_seconds;    /* the measured time of one of its steps */
    struct plan_shape slower; /* a layout that was given up again because it was slower; while */
    unsigned slower_frozen;   /* this many layers are frozen it is not tried again */
};
