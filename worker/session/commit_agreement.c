#include "worker/session/commit_agreement.h"

#include "elastic/job/job_spec.h"
#include "worker/session/metrics_writer.h"
#include "worker/session/trainer.h"
#include "worker/state/state_digest.h"

/* Remove the metrics since a unit's last check: state that was right then was right before. */
static void forget_unchecked(struct trainer *trainer)
{
    const struct state *state = trainer->state;
    uint64_t turn = MIN(state->applied_step, (uint64_t)state->unit_count);

    metrics_writer_rewind(&trainer->metrics, &trainer->report,
                          MAX(state->applied_step - turn, trainer->commit.agreed_step));
}

int commit_agreement_run(struct trainer *trainer, bool closing, struct step_commit_up *up,
                         const struct commit_root *root, struct step_commit_down *ret_down,
                         struct error *error)
{
    const struct plan *plan = trainer->plan;
    uint64_t boundary = trainer->state->applied_step;
    unsigned rank = trainer->engine->part.rank;

    up->digests = *state_digest_of(trainer->engine->check);
    int status =
        commit_round_run(trainer->links.mesh, plan, rank, closing, up, root, ret_down, error);
    if (!status && (closing || checkpoint_calendar_due(&trainer->checkpoints.calendar, boundary)))
        trainer->commit.agreed_step = boundary;
    if (!ret_down->dispute)
        return status;
    if (status < 0) /* the ranks do not all settle the dispute; the result still counts here */
        mesh_abort(trainer->links.mesh, "replicas differ, and not all could be told");
    if (ret_down->dispute == DISPUTE_STATE)
        forget_unchecked(trainer);
    return dispute_round_settle(trainer->links.mesh, &plan->layout, rank, ret_down->dispute,
                                up->record.step, trainer->state, &up->digests,
                                &trainer->commit.disputes, error);
}
