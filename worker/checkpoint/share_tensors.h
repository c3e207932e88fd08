/*
 * The tensors of a checkpoint that one rank writes.
 *
 * Every tensor of a stage goes to the replica with the fewest bytes so far. Frozen units go to the
 * replicas in turn, whole and with no weight, because they are written once and then linked. The
 * result follows from the plan, the freeze state and the ranks left out, so the replicas agree
 * without a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "checkpoint/write/writer.h"
#include "elastic/plan/plan_layout.h"
#include "worker/state/state.h"

struct share_tensors {
    struct checkpoint_tensor *list; /* owned; data: device memory, borrowed from the state */
    unsigned count;
    size_t size_bytes;
};

/**
 * share_tensors_of() - list the tensors of @rank, which holds its stage and is not left out
 * @left_out: by rank: writes nothing; not all replicas of a stage
 * (elastic/copies/checkpoint_writers.h). NULL: none
 *
 * Return: 0; -ENOMEM
 */
int share_tensors_of(const struct state *state, const struct plan_layout *layout, unsigned rank,
                     const bool *left_out, struct share_tensors *ret_tensors) CHECK_RESULT;
void share_tensors_done(struct share_tensors *tensors); /* zeroed memory is allowed */
