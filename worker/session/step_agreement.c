#include "worker/session/step_agreement.h"

#include <errno.h>
#include <inttypes.h>

#include "elastic/job/job_spec.h"
#include "protocol/division_round.h"
#include "worker/step/tree_exchange.h"

static int run(struct tree_exchange *exchange, struct division_round *division,
               const struct division_question *question, const struct kept_step *kept)
{
    struct step_facts facts = {0};
    int status = kept_step_facts(kept, question->layout, question->rank, &facts);

    if (!status)
        status = division_round_begin(division, &exchange->round, question, &facts);
    step_facts_done(&facts); /* unless they were taken */
    return status ? status : tree_exchange_run(exchange);
}

int step_agreement_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                       const struct state *state, const struct kept_step *kept,
                       struct step_division *ret_division, struct error *error)
{
    const struct division_question question = {
        .layout = layout,
        .rank = rank,
        .step = state->applied_step + 1,
        .trained_from = state_frozen_units(state),
        .lanes = state->spec->train.lanes,
        .micro_batches = state->spec->train.micro_batches_per_lane,
    };
    struct tree_exchange exchange = {.mesh = mesh,
                                     .part_tag = tag_make(TAG_DIVISION, question.step, 0),
                                     .answer_tag = tag_make(TAG_DIVISION, question.step, 1)};
    CLEANUP(division_round_done) struct division_round division = {0};
    int status = run(&exchange, &division, &question, kept);

    *ret_division = division.division;
    if (status == -ECONNRESET || status == -ETIMEDOUT)
        return error_set(error, status,
                         "the links broke while step %" PRIu64 " was divided among replicas",
                         question.step);
    return status ? error_set(error, status, "step %" PRIu64 " cannot be divided among replicas",
                              question.step)
                  : 0;
}
