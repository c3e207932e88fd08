/*
 * The tree along which a commit is exchanged: over the ranks [0, worker_count), with a fixed
 * fan-out and root 0.
 */
#pragma once

#include "elastic/plan/plan_layout.h"

#define COMMIT_TREE_FAN 8
static inline unsigned commit_tree_parent(unsigned rank) /* of a rank that is not the root */
{
    return (rank - 1) / COMMIT_TREE_FAN;
}
/**
 * commit_tree_children() - return the number of children of @rank; the children are [*ret_first,
 * *ret_first + the result)
 */
static inline unsigned commit_tree_children(const struct plan_layout *layout, unsigned rank,
                                            unsigned *ret_first)
{
    unsigned first = rank * COMMIT_TREE_FAN + 1;
    *ret_first = first;
    if (first >= layout->worker_count)
        return 0;
    unsigned left = layout->worker_count - first;
    return left < COMMIT_TREE_FAN ? left : COMMIT_TREE_FAN;
}
