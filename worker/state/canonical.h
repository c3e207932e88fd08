/*
 * The canonical order of all tensors that a checkpoint stores: units in order, their tensors in
 * order, and of each tensor its parameter and, when trained, its two moments. Mirrors are not
 * stored. The order depends on the model and the frozen boundary alone, never on the layout.
 */
#pragma once

#include "checkpoint/format/manifest.h"
#include "worker/state/state.h"

struct canonical_tensor {
    const struct unit_tensor *tensor;
    unsigned unit;
    enum manifest_role role;
    unsigned order;
};

typedef int (*canonical_visitor)(void *context, const struct canonical_tensor *tensor);

/** canonical_visit() - call @visit for all tensors of units [first, first + count); stop at the
 * first nonzero result and return it */
int canonical_visit(const struct state *state, unsigned first, unsigned count,
                    canonical_visitor visit, void *context);
/** canonical_count() - return the number of tensors of the whole model */
unsigned canonical_count(const struct state *state);
/** canonical_memory() - return the tensor's memory in the state; NULL when the unit is not held */
float *canonical_memory(const struct state *state, const struct canonical_tensor *tensor);
