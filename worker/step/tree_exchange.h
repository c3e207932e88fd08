/*
 * Rounds along the tree of ranks (protocol/tree_round.h), carried out over the links of a
 * generation: this thread sends, and waits for the next messages of the round.
 */
#pragma once

#include "base/compiler.h"
#include "comm/mesh/mesh.h"
#include "protocol/tree_round.h"
#include "worker/device/tags.h"

/* One rank's round: the caller sets all members, and begins the round. */
struct tree_exchange {
    struct tree_round round;
    struct mesh *mesh;
    uint64_t part_tag, answer_tag; /* of its messages up and down */
};

/** tree_exchange_gather() - take the parts of this rank's subtree. After it rank 0 can decide the
 * answer. 0; -ECONNRESET, -ETIMEDOUT (the mesh failed); -ENOMEM; the errors of the round */
int tree_exchange_gather(struct tree_exchange *exchange) CHECK_RESULT;
/** tree_exchange_run() - continue until this rank has the answer and has forwarded it; errors as
 * above
 */
int tree_exchange_run(struct tree_exchange *exchange) CHECK_RESULT;

/**
 * tree_exchange_await_all() - after a round of @kind: wait until all ranks have its answer
 *
 * All ranks call it when they have an answer that makes a rank leave. A link that breaks now only
 * ends the wait.
 */
void tree_exchange_await_all(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                             enum tag_kind kind, uint64_t step);
