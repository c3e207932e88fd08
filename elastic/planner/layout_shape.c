#include "elastic/planner/layout_shape.h"

#include <errno.h>
#include <math.h>

#include "elastic/plan/lanes.h"

double shape_fill(const struct planner_input *input, unsigned stages)
{
    return (double)(stages - 1) / input->micro_batches_per_lane;
}

struct layout_shape shape_of_replicas(const struct planner_input *input, unsigned stages,
                                      unsigned replicas, const double *speeds,
                                      const unsigned *first, const unsigned *heads)
{
    struct layout_shape shape = {.stage_count = stages,
                                 .replica_count = replicas,
                                 .shares = heads != NULL,
                                 .slowest = INFINITY};
    double longest = 0;
    for (unsigned replica = 0; replica < replicas; replica++) {
        unsigned lanes = first[replica + 1] - first[replica];
        unsigned count = lanes * input->micro_batches_per_lane;
        if (heads)
            count = count + heads[replica + 1] - heads[replica];
        double time = (count + stages - 1) / speeds[replica];
        shape.buffers = MAX(shape.buffers, lanes_buffers(first[replica], first[replica + 1],
                                                         heads && heads[replica] > 0,
                                                         heads && heads[replica + 1] > 0));
        shape.slowest = fmin(shape.slowest, speeds[replica]);
        if (time <= longest)
            continue;
        longest = time;
        shape.micro_batches = count;
        shape.speed = speeds[replica];
    }
    shape.sums = sums_room(input->lanes, replicas, first);
    return shape;
}

/* Compute the speed of each replica, that of its slowest slot. Slots that @input does not list
 * count as reference slots. */
static int replica_speeds(const struct planner_input *input, const struct plan_layout *layout,
                          double **ret_speeds)
{
    double *speeds = calloc(layout->replica_count, sizeof(*speeds));
    if (!speeds)
        return -ENOMEM;
    for (unsigned i = 0; i < input->slot_count; i++) {
        int rank = plan_layout_find(layout, input->slots[i].node, input->slots[i].slot);
        if (rank < 0 || (unsigned)rank >= layout->worker_count)
            continue;
        double *speed = &speeds[(unsigned)rank / layout->stage_count];
        *speed = fmin(*speed > 0 ? *speed : INFINITY, slot_speed(&input->slots[i]));
    }
    for (unsigned replica = 0; replica < layout->replica_count; replica++)
        speeds[replica] = speeds[replica] > 0 ? speeds[replica] : 1;
    *ret_speeds = speeds;
    return 0;
}

static struct layout_shape placed_shape(const struct planner_input *input,
                                        const struct plan_layout *layout, const double *speeds)
{
    return shape_of_replicas(input, layout->stage_count, layout->replica_count, speeds,
                             layout->replica_first_lane, layout->replica_head);
}

static void share_nothing(struct plan_layout *layout)
{
    free(layout->replica_head);
    layout->replica_head = NULL;
}

int shape_split_unlike(const struct planner_input *input, const struct layout_shape *chosen,
                       struct plan_layout *layout)
{
    AUTO_FREE double *speeds = NULL;
    unsigned replicas = layout->replica_count, *first = layout->replica_first_lane;
    double fill = shape_fill(input, layout->stage_count);
    int status = replica_speeds(input, layout, &speeds);
    if (status < 0)
        return status;
    if (layout->replica_head && !lanes_share(input->lanes, input->micro_batches_per_lane, speeds,
                                             replicas, fill, first, layout->replica_head))
        share_nothing(layout);
    if (!layout->replica_head)
        lanes_split_unlike(input->lanes, speeds, replicas, fill, first);
    struct layout_shape placed = placed_shape(input, layout, speeds);
    if (chosen && shape_room(&placed) > shape_room(chosen)) {
        share_nothing(layout);
        status = lanes_split(input->lanes, replicas, first);
    }
    return status;
}

int shape_split_alike(const struct planner_input *input, const struct layout_shape *shape,
                      struct plan_layout *layout)
{
    unsigned *first = layout->replica_first_lane, replicas = shape->replica_count;
    if (!shape->shares)
        return lanes_split(input->lanes, replicas, first);
    layout->replica_head = calloc((size_t)replicas + 1, sizeof(unsigned));
    if (!layout->replica_head)
        return -ENOMEM;
    bool can_share = lanes_share(input->lanes, input->micro_batches_per_lane, NULL, replicas, 0,
                                 first, layout->replica_head);
    assert(can_share); /* there are as many lanes as replicas, or more */
    return 0;
}

int shape_of_layout(const struct planner_input *input, const struct plan_layout *layout,
                    struct layout_shape *ret_shape)
{
    AUTO_FREE double *speeds = NULL;
    int status = replica_speeds(input, layout, &speeds);
    if (status < 0)
        return status;
    *ret_shape = placed_shape(input, layout, speeds);
    ret_shape->recompute = layout->recompute;
    ret_shape->deferred = layout->deferred;
    return 0;
}
