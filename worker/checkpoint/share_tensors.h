/*
 * Which tensors one rank writes of a checkpoint.
 *
 * Every tensor of a stage goes to the replica that has the least to write so far; frozen units go
 * around whole and weigh nothing, for they are written once and then linked. All of it follows from
 * the plan, the freeze state and who sits out, so the replicas agree without a word.
 */
#pragma once

#include "checkpoint/write/writer.h"
#include "elastic/plan/plan.h"
#include "worker/state/state.h"

struct share_tensors {
    struct checkpoint_tensor *list; /* owned; data: memory of the device, borrowed from the state */
    unsigned count;
    size_t size_bytes;
};

/**
 * share_tensors_of() - those of @rank, whose stage is held, and who writes
 * @left_out: by rank, who writes nothing; not all replicas of a stage
 * (elastic/copies/checkpoint_writers.h). NULL: nobody Return: 0; -ENOMEM
 */
int share_tensors_of(const struct state *state, const struct plan *plan, unsigned rank,
                     const bool *left_out, struct share_tensors *ret_tensors) CHECK_RESULT;
void share_tensors_done(struct share_tensors *tensors); /* zeroed memory is allowed */
