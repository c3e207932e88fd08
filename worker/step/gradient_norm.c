#include "worker/step/gradient_norm.h"

#include <errno.h>

struct gradient_norm {
    const struct state *state; /* borrowed */
    struct kernel_flat_tensor *tensors;
    double *sums;   /* of the tensors */
    size_t *firsts; /* of each unit: its first tensor in the list */
};

int gradient_norm_new(const struct state *state, struct gradient_norm **ret_squares)
{
    struct gradient_norm *squares = calloc(1, sizeof(*squares));
    size_t tensors_max = (size_t)state->unit_count * UNIT_TENSORS_MAX;

    if (!squares)
        return -ENOMEM;
    squares->state = state;
    squares->tensors = calloc(tensors_max, sizeof(*squares->tensors));
    squares->sums = calloc(tensors_max, sizeof(*squares->sums));
    squares->firsts = calloc(state->unit_count + 1, sizeof(*squares->firsts));
    if (!squares->tensors || !squares->sums || !squares->firsts) {
        gradient_norm_free(squares);
        return -ENOMEM;
    }
    *ret_squares = squares;
    return 0;
}

void gradient_norm_free(struct gradient_norm *squares)
{
    if (!squares)
        return;
    free(squares->tensors);
    free(squares->sums);
    free(squares->firsts);
    free(squares);
}

/* List the tensors of all units with a gradient, in order. Returns their number. */
static size_t list_tensors(struct gradient_norm *squares, float *const *gradients)
{
    const struct state *state = squares->state;
    size_t count = 0;

    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        const struct unit_layout *layout = &state->units[unit].layout;
        squares->firsts[unit] = count;
        for (unsigned i = 0; gradients[unit] && i < layout->tensor_count; i++)
            if (!state_mirrored(state, &layout->tensors[i]))
                squares->tensors[count++] = (struct kernel_flat_tensor){
                    gradients[unit] + layout->tensors[i].offset, layout->tensors[i].count};
    }
    squares->firsts[state->unit_count] = count;
    return count;
}

void gradient_norm_record(struct gradient_norm *squares, const struct plan *plan, unsigned rank,
                          float *const *gradients, struct step_record *record)
{
    const struct state *state = squares->state;
    size_t count = list_tensors(squares, gradients);

    state->kernel->norms_squared(state->device, squares->tensors, count, squares->sums);
    for (unsigned unit = 0; unit < state->unit_count; unit++) {
        double sum = 0;
        for (size_t i = squares->firsts[unit]; i < squares->firsts[unit + 1]; i++)
            sum += squares->sums[i];
        if (plan_layout_keeps(&plan->layout, rank, unit))
            record->unit_squares[unit] = step_record_known(sum);
    }
}
