#include "elastic/plan/plan_layout.h"

#include <string.h>

double plan_layout_lanes_computed(const struct plan_layout *layout, unsigned replica)
{
    const unsigned *first = &layout->replica_first_lane[replica];
    double lanes = first[1] - first[0];
    if (!layout->replica_head)
        return lanes;
    return lanes + ((double)layout->replica_head[replica + 1] - layout->replica_head[replica]) /
                       layout->lane_micro_batches;
}

int plan_layout_find(const struct plan_layout *layout, const char *node, unsigned slot)
{
    for (unsigned rank = 0; rank < layout->worker_count + layout->donor_count; rank++)
        if (layout->workers[rank].slot == slot && strcmp(layout->workers[rank].node, node) == 0)
            return (int)rank;
    return -1;
}

int plan_layout_find_node(const struct plan_layout *layout, const char *node)
{
    for (unsigned rank = 0; rank < layout->worker_count + layout->donor_count; rank++)
        if (strcmp(layout->workers[rank].node, node) == 0)
            return (int)rank;
    return -1;
}

const char *plan_layout_lone_node(const struct plan_layout *layout)
{
    for (unsigned rank = 1; rank < layout->worker_count; rank++)
        if (strcmp(layout->workers[rank].node, layout->workers[0].node) != 0)
            return NULL;
    return layout->worker_count > 0 ? layout->workers[0].node : NULL;
}

int plan_layout_shadow_of(const struct plan_layout *layout, unsigned stage)
{
    for (unsigned i = 0; i < layout->shadow_count; i++)
        if (layout->shadows[i].stage == stage)
            return (int)layout->shadows[i].rank;
    return -1;
}

static bool stage_has(const struct plan_layout *layout, unsigned stage, unsigned unit)
{
    return unit >= layout->stage_first_unit[stage] && unit < layout->stage_first_unit[stage + 1];
}

bool plan_layout_keeps(const struct plan_layout *layout, unsigned rank, unsigned unit)
{
    if (rank >= layout->worker_count)
        return false;
    if (stage_has(layout, rank % layout->stage_count, unit))
        return true;
    for (unsigned i = 0; i < layout->shadow_count; i++)
        if (layout->shadows[i].rank == rank && stage_has(layout, layout->shadows[i].stage, unit))
            return true;
    return false;
}
