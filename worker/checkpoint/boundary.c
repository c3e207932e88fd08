#include "worker/checkpoint/boundary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "elastic/job/huggingface.h"
#include "elastic/job/job_spec.h"
#include "worker/state/canonical.h"

int boundary_describe(struct boundary *boundary, const struct state *state, const struct plan *plan,
                      unsigned rank)
{
    boundary_forget(boundary);
    boundary->rank = rank;
    boundary->world = plan->layout.worker_count;
    boundary->step = state->applied_step;
    boundary->generation = plan->generation;
    boundary->tensor_count = canonical_count(state);
    boundary->frozen_layers = state->freeze.frozen_layers;
    boundary->began_ns = clock_monotonic_ns();
    boundary->state = state_encode(state);
    boundary->config = huggingface_config(&state->spec->model, state_tied(state));
    return boundary->state && boundary->config ? 0 : -ENOMEM;
}

int boundary_leave_out(struct boundary *boundary, const struct plan_layout *layout,
                       const bool *left_out)
{
    bool *copy = calloc(layout->worker_count, sizeof(*copy));

    free(boundary->left_out);
    boundary->left_out = copy;
    boundary->left_out_node[0] = '\0';
    for (unsigned rank = 0; copy && rank < layout->worker_count; rank++) {
        copy[rank] = left_out && left_out[rank];
        if (copy[rank])
            memcpy(boundary->left_out_node, layout->workers[rank].node, NAME_SIZE);
    }
    return copy ? 0 : -ENOMEM;
}

bool boundary_sits_out(const struct boundary *boundary)
{
    return boundary->left_out && boundary->left_out[boundary->rank];
}

void boundary_forget(struct boundary *boundary)
{
    json_decref(boundary->state);
    json_decref(boundary->config);
    boundary->state = boundary->config = NULL;
}

void boundary_done(struct boundary *boundary)
{
    boundary_forget(boundary);
    free(boundary->left_out);
    boundary->left_out = NULL;
}
