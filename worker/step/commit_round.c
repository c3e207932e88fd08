#include "worker/step/commit_round.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/step/tree_exchange.h"

/* Ask for permission once all ranks hold, before any of them learns of it. */
static int permit(const struct step_commit *commit, const struct commit_root *root)
{
    bool asks = commit->rank == 0 && !commit->sum.dispute && root->may_commit;

    return asks ? root->may_commit(root->context) : 0;
}

int commit_round_run(struct mesh *mesh, const struct plan *plan, unsigned rank, bool closing,
                     const struct step_commit_up *mine, const struct commit_root *root,
                     struct step_commit_down *ret_down, struct error *error)
{
    uint64_t step = mine->record.step;
    AUTO_FREE struct step_commit *commit = malloc(sizeof(*commit));
    struct tree_exchange exchange = {
        .mesh = mesh,
        .part_tag = tag_make(closing ? TAG_CLOSING : TAG_HOLD, step, 0),
        .answer_tag = tag_make(closing ? TAG_CLOSED : TAG_COMMIT, step, 0),
    };

    ret_down->dispute = DISPUTE_NOTHING;
    if (!commit)
        return -ENOMEM;
    step_commit_begin(commit, &exchange.round, &plan->layout, rank, closing, mine, error);
    int status = tree_exchange_gather(&exchange);
    if (rank == 0 && root->gathered)
        root->gathered(root->context);
    if (!status)
        status = permit(commit, root);
    if (!status && rank == 0)
        step_commit_switch(commit, plan, root->next);
    if (!status)
        status = tree_exchange_run(&exchange);
    *ret_down = commit->down;
    return !status && ret_down->dispute ? COMMIT_ROUND_DISPUTED : status;
}
