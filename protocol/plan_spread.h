/*
 * How the next plan spreads among the ranks while a step is computed. A rank tells its parent in
 * the tree of ranks as soon as its whole subtree has the plan. When rank 0 finds that all ranks
 * have it, the generation may begin within the step. A message counts for one step: a rank that
 * sends it within a step has the commit of the previous step.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "elastic/plan/commit_tree.h"

/* All zero: a step begins, no plan was told yet. */
struct plan_spread {
    uint64_t told;                      /* the newest generation told to the parent in this step */
    uint64_t children[COMMIT_TREE_FAN]; /* the newest that each child has told in this step */
};

/** plan_spread_pack() - append the message to the parent: the subtree has the plan of @generation.
 * 0; -ENOMEM */
int plan_spread_pack(uint64_t generation, struct bytes *message) CHECK_RESULT;
/** plan_spread_take() - take the message of a child, by its place among the children. 0; -EBADMSG
 */
int plan_spread_take(struct plan_spread *spread, unsigned child, const void *data,
                     size_t size_bytes) CHECK_RESULT;

/** plan_spread_is_complete() - return whether all children of this rank have the plan of
 * @generation, which this rank has */
bool plan_spread_is_complete(const struct plan_spread *spread, unsigned child_count,
                             uint64_t generation);
