/*
 * The step boundary of a checkpoint: its step and generation, the ranks that write, and the data of
 * the manifest apart from its tensors.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/name.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct boundary {
    uint64_t step, generation; /* step 0: no checkpoint was begun */
    unsigned rank, world;
    uint64_t began_ns;
    unsigned tensor_count, frozen_layers;
    json_t *state, *config;        /* for the manifest; NULL before the first */
    bool *left_out;                /* (world,): ranks that write nothing; NULL before the first */
    char left_out_node[NAME_SIZE]; /* node of one of them; "": none */
};
/**
 * boundary_describe() - record the data of the boundary at applied_step of @state, for @rank of
 * @plan; -ENOMEM
 */
int boundary_describe(struct boundary *boundary, const struct state *state, const struct plan *plan,
                      unsigned rank) CHECK_RESULT;

/**
 * boundary_leave_out() - record the ranks that write nothing
 * @left_out: (layout->worker_count,), copied; NULL: none
 *
 * Return: 0, -ENOMEM
 */
int boundary_leave_out(struct boundary *boundary, const struct plan_layout *layout,
                       const bool *left_out) CHECK_RESULT;

/** boundary_sits_out() - return whether this rank writes nothing */
bool boundary_sits_out(const struct boundary *boundary);

/** boundary_forget() - release the data for the manifest; the step stays */
void boundary_forget(struct boundary *boundary);

/** boundary_done() - release everything */
void boundary_done(struct boundary *boundary);
