#include "worker/step/gradients.h"

#include <errno.h>

struct gradients {
    const struct state *state; /* borrowed: kernel, device, unit layouts */
    unsigned first_unit, unit_count;
    unsigned first_lane, lane_count;
    unsigned depth;      /* buffers per unit */
    unsigned *positions; /* per lane: its position on the stack */
    unsigned *merges;    /* per lane: number of merges after it */
    float **buffers;     /* unit_count * depth */
    float **reduced;     /* unit_count */
};

/* Simulate the lanes without data: each lane's position on the stack and the number of merges that
 * it completes (NULL: not wanted). Returns the maximum depth of the stack. */
static unsigned play_stack(unsigned lanes, struct lane_tree_span range, unsigned *ret_positions,
                           unsigned *ret_merges)
{
    struct lane_tree_span stack[LANE_TREE_SUBTREES_MAX + 2], parent;
    unsigned height = 0, depth = 0;

    for (unsigned i = 0; i < range.count; i++) {
        unsigned merges = 0, position = height;
        stack[height++] = (struct lane_tree_span){range.first + i, 1};
        depth = MAX(depth, height);
        for (; height >= 2 &&
               lane_tree_parent_of_pair(lanes, stack[height - 2], stack[height - 1], &parent);
             merges++)
            stack[--height - 1] = parent;
        if (ret_positions)
            ret_positions[i] = position;
        if (ret_merges)
            ret_merges[i] = merges;
    }
    return depth;
}

unsigned gradients_depth(unsigned lanes, struct lane_tree_span lane_range)
{
    return play_stack(lanes, lane_range, NULL, NULL);
}

static int allocate_buffers(struct gradients *gradients)
{
    const struct state *state = gradients->state;

    for (unsigned unit = 0; unit < gradients->unit_count; unit++) {
        size_t size_bytes = state->units[gradients->first_unit + unit].layout.count * sizeof(float);
        if (gradients->first_unit + unit < state_frozen_units(state))
            continue;
        for (unsigned i = 0; i < gradients->depth; i++) {
            void *memory;
            if (arena_take(state->arena, size_bytes, &memory))
                return -ENOMEM;
            gradients->buffers[unit * gradients->depth + i] = memory;
        }
        gradients->reduced[unit] = gradients->buffers[unit * gradients->depth];
    }
    return 0;
}

int gradients_new(const struct state *state, unsigned first_unit, unsigned unit_count,
                  unsigned lanes, struct lane_tree_span lane_range,
                  struct gradients **ret_gradients, struct error *error)
{
    struct gradients *gradients = calloc(1, sizeof(*gradients));

    if (!gradients)
        return error_set(error, -ENOMEM, "no memory for gradient buffers");
    *gradients = (struct gradients){.state = state,
                                    .first_unit = first_unit,
                                    .unit_count = unit_count,
                                    .first_lane = lane_range.first,
                                    .lane_count = lane_range.count};
    gradients->positions = calloc(lane_range.count, sizeof(unsigned));
    gradients->merges = calloc(lane_range.count, sizeof(unsigned));
    gradients->reduced = calloc(unit_count, sizeof(float *));
    if (gradients->positions && gradients->merges && gradients->reduced) {
        gradients->depth = play_stack(lanes, lane_range, gradients->positions, gradients->merges);
        gradients->buffers = calloc((size_t)unit_count * gradients->depth, sizeof(float *));
    }
    if (!gradients->buffers || allocate_buffers(gradients)) {
        gradients_free(gradients);
        return error_set(error, -ENOMEM, "no memory for the gradients of %u units", unit_count);
    }
    *ret_gradients = gradients;
    return 0;
}

void gradients_free(struct gradients *gradients)
{
    if (!gradients)
        return;
    free(gradients->buffers);
    free(gradients->positions);
    free(gradients->merges);
    free(gradients->reduced);
    free(gradients);
}

static float **stack_of(struct gradients *gradients, unsigned unit)
{
    assert(unit >= gradients->first_unit && unit < gradients->first_unit + gradients->unit_count);
    return gradients->buffers + (size_t)(unit - gradients->first_unit) * gradients->depth;
}

static size_t unit_elements(const struct gradients *gradients, unsigned unit)
{
    return gradients->state->units[unit].layout.count;
}

float *gradients_buffer(struct gradients *gradients, unsigned unit, unsigned lane,
                        bool first_micro_batch)
{
    const struct state *state = gradients->state;
    float *buffer = stack_of(gradients, unit)[gradients->positions[lane - gradients->first_lane]];

    if (first_micro_batch)
        state->kernel->zero(state->device, buffer, unit_elements(gradients, unit) * sizeof(float));
    return buffer;
}

void gradients_lane_done(struct gradients *gradients, unsigned unit, unsigned lane)
{
    const struct state *state = gradients->state;
    unsigned position = gradients->positions[lane - gradients->first_lane];
    float **stack = stack_of(gradients, unit);

    for (unsigned i = 0; i < gradients->merges[lane - gradients->first_lane]; i++, position--)
        state->kernel->tree_add(state->device, stack[position - 1], stack[position - 1],
                                stack[position], unit_elements(gradients, unit));
}

float *const *gradients_subtrees(struct gradients *gradients, unsigned unit)
{
    return stack_of(gradients, unit);
}

float *const *gradients_reduced(struct gradients *gradients)
{
    return gradients->reduced;
}
