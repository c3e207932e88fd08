#include "worker/session/data_agreement.h"

#include "protocol/data_vote.h"
#include "worker/step/tree_exchange.h"

int data_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       uint64_t digest, uint64_t known, struct error *error)
{
    struct tree_exchange exchange = {
        .mesh = mesh, .part_tag = tag_make(TAG_DATA, 0, 0), .answer_tag = tag_make(TAG_DATA, 0, 1)};
    struct data_vote vote;

    data_vote_begin(&vote, &exchange.round, layout, rank, digest, known);
    int status = tree_exchange_run(&exchange);
    if (status)
        return status;
    if (!vote.outcome.unanimous)
        tree_exchange_await_all(mesh, layout, rank, TAG_DATA, 0);
    return data_vote_judge(&vote.outcome, layout->workers[rank].node, digest, error);
}
