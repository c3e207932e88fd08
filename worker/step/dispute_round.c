#include "worker/step/dispute_round.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "elastic/job/job_spec.h"
#include "worker/step/tree_exchange.h"

int dispute_round_run(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                      uint64_t step, const struct dispute_verdict_claim *mine, size_t count,
                      struct dispute_verdict *ret_verdict)
{
    struct tree_exchange exchange = {.mesh = mesh,
                                     .part_tag = tag_make(TAG_DISPUTE, step, 0),
                                     .answer_tag = tag_make(TAG_DISPUTE, step, 1)};
    AUTO_FREE struct dispute *dispute = malloc(sizeof(*dispute));

    if (!dispute)
        return -ENOMEM;
    int status = dispute_begin(dispute, &exchange.round, layout, rank, mine, count);
    if (!status)
        status = tree_exchange_run(&exchange);
    if (!status) {
        tree_exchange_await_all(mesh, layout, rank, TAG_DISPUTE, step);
        *ret_verdict = dispute->verdict;
    }
    dispute_done(dispute);
    return status;
}

int dispute_round_settle(struct mesh *mesh, const struct plan_layout *layout, unsigned rank,
                         enum dispute_about about, uint64_t step, struct state *state,
                         const struct unit_digests *digests, struct dispute_memory *memory,
                         struct error *error)
{
    bool again = dispute_memory_has_seen(memory, about, step, state->spec->checkpoint.every,
                                         state->unit_count);
    AUTO_FREE struct dispute_verdict *verdict = malloc(sizeof(*verdict));
    AUTO_FREE struct dispute_verdict_claim *claims = calloc(STEP_RECORD_UNITS_MAX, sizeof(*claims));

    state->holds = false;
    int status = verdict && claims
                     ? dispute_round_run(
                           mesh, layout, rank, step, claims,
                           dispute_list_claims(&state->hold, digests, about, rank, claims), verdict)
                     : -ENOMEM;
    if (status && about == DISPUTE_STATE)
        return error_set(error, -EUCLEAN,
                         "step %" PRIu64 ": replicas hold different parameters or moments, and the "
                         "links broke before it was known who: %s",
                         step, dispute_what_follows(about));
    if (status)
        return status;
    dispute_memory_note(memory, about, step, verdict);
    return dispute_outcome(layout, rank, about, step, verdict, again, error);
}
