#include "worker/session/step_agreement.h"

#include <errno.h>

#include "elastic/job/job_spec.h"
#include "protocol/division_round.h"
#include "worker/step/tree_exchange.h"

static int run_round(struct moved_sums *sums, struct tree_exchange *exchange,
                     struct division_round *division, const struct division_question *question)
{
    struct step_facts facts = {0};
    int status = moved_sums_facts(sums, &facts);

    if (!status)
        status = division_round_begin(division, &exchange->round, question, &facts);
    step_facts_done(&facts); /* unless they were taken */
    return status ? status : tree_exchange_run(exchange);
}

static int run(const struct step_agreement *agreement, struct kept_step **kept,
               struct moved_sums **ret_sums, struct step_division *ret_division)
{
    const struct state *state = agreement->state;
    const struct division_question question = {
        .layout = &agreement->plan->layout,
        .rank = agreement->rank,
        .step = state->applied_step + 1,
        .trained_from = state_frozen_units(state),
        .lanes = state->spec->train.lanes,
        .micro_batches = state->spec->train.micro_batches_per_lane,
    };
    struct tree_exchange exchange = {.mesh = agreement->mesh,
                                     .part_tag = tag_make(TAG_DIVISION, question.step, 0),
                                     .answer_tag = tag_make(TAG_DIVISION, question.step, 1)};
    CLEANUP(division_round_done) struct division_round division = {0};
    int status = moved_sums_new(agreement->state, agreement->plan, agreement->rank, agreement->mesh,
                                *kept, agreement->begins, ret_sums);

    if (!status)
        status = run_round(*ret_sums, &exchange, &division, &question);
    *ret_division = division.division;
    if (!status)
        status = moved_sums_settle(*ret_sums, ret_division);
    return status || !ret_division->step
               ? status
               : kept_step_adopt_losses(kept, agreement->state, moved_sums_list(*ret_sums));
}

int step_agreement_run(const struct step_agreement *agreement, struct kept_step **kept,
                       struct moved_sums **ret_sums, struct step_division *ret_division,
                       struct error *error)
{
    unsigned long long step = agreement->state->applied_step + 1;
    int status = run(agreement, kept, ret_sums, ret_division);

    if (status == -ECONNRESET || status == -ETIMEDOUT)
        return error_set(error, status,
                         "the links broke while step %llu was divided among replicas", step);
    return status ? error_set(error, status, "step %llu cannot be divided among replicas", step)
                  : 0;
}
