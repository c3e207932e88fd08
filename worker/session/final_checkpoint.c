/*
 * The checkpoint at the end of a stay (protocol/final_checkpoint.h), carried out by this worker.
 * The recorded state has been compared, as in every commit (worker/state/state_digest.h). It is
 * tried until it succeeds, with an alarm, or until the worker is ordered to stop.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "protocol/final_checkpoint.h"
#include "worker/session/checkpoint_duty.h"
#include "worker/session/commands.h"
#include "worker/session/commit_agreement.h"
#include "worker/session/generation.h"
#include "worker/session/session.h"
#include "worker/session/status_report.h"
#include "worker/session/trainer.h"
#include "worker/state/state_digest.h"
#include "worker/trace/recorder.h"

#define RETRY_NS (2 * NS_PER_SECOND)
#define ROUND_NS (NS_PER_SECOND / 20) /* between two rounds while rank 0 commits */

/* Run one round of the commit tree without a step, with each rank's report on the checkpoint.
 * @durable: of this rank. */
static int closing_round(struct trainer *trainer, uint64_t durable, struct step_commit_down *down,
                         struct error *error)
{
    AUTO_FREE struct step_commit_up *up = calloc(1, sizeof(*up));

    const struct commit_root root = {0};

    if (!up)
        return -ENOMEM;
    step_record_init(&up->record, trainer->state->applied_step, 0, 0);
    up->data_digest = dataset_digest(trainer->dataset).low;
    up->checkpoint_durable = durable;
    checkpoint_duty_report_share(&trainer->checkpoints, &trainer->engine->part, up);
    int status = commit_agreement_run(trainer, true, up, &root, down, error);
    if (!status)
        checkpoint_duty_take_reports(&trainer->checkpoints, down);
    return status;
}

static bool links_broke(const struct trainer *trainer)
{
    struct mesh_fault fault;

    mesh_fault(trainer->links.mesh, &fault);
    return fault.failed;
}

/* Compute the digests of all units, which the rounds carry from now on. */
static int compare(struct trainer *trainer, struct error *error)
{
    const struct engine *engine = trainer->engine;

    state_digest_run(engine->check, &engine->plan->layout, engine->part.rank, true);
    return trainer->device.kernel->synchronize(trainer->device.device, error);
}

/* Wait for a commit that is in flight here. Copies of an earlier boundary are given up: they would
 * need nodes that may be gone. The first round also carries digests. */
static int settle(struct trainer *trainer, struct error *error)
{
    struct snapshot *snapshot = trainer->checkpoints.snapshot;

    snapshot_give_up_copies(snapshot, trainer->state->applied_step);
    status_report_checkpoint(trainer, false);
    while (snapshot_is_committing(snapshot)) {
        commands_take(trainer, clock_monotonic_ns() + ROUND_NS);
        if (commands_stopping(&trainer->commands) || links_broke(trainer))
            return -ECONNRESET;
        status_report_checkpoint(trainer, false);
    }
    return compare(trainer, error);
}

/* Write this rank's share until it is durable or has failed; a failure does not end the round. */
static void write_share(struct trainer *trainer)
{
    const struct state *state = trainer->state;
    struct error error = {0};
    int status = 0;

    if (snapshot_durable_step(trainer->checkpoints.snapshot) == state->applied_step)
        return;
    do { /* a share of an earlier boundary may still be in flight */
        status = checkpoint_duty_poll(trainer, clock_monotonic_ns() + RETRY_NS, &error);
        if (!status)
            status = checkpoint_duty_begin(trainer, &error);
    } while (status == -EBUSY && !commands_stopping(&trainer->commands));
    while (!status && snapshot_durable_step(trainer->checkpoints.snapshot) != state->applied_step &&
           !commands_stopping(&trainer->commands))
        status = checkpoint_duty_poll(trainer, clock_monotonic_ns() + RETRY_NS, &error);
    if (status)
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
}

/* On rank 0, until the next round is due. A failed commit is not an error here: the round reports
 * it to all ranks. */
static int look_after_commit(struct trainer *trainer)
{
    uint64_t step = trainer->state->applied_step;

    snapshot_commit(trainer->checkpoints.snapshot,
                    step); /* starts once the commit before it has ended */
    snapshot_all_told(trainer->checkpoints.snapshot, step);
    status_report_checkpoint(trainer, false);
    if (trainer->checkpoints.recorded_step < step &&
        snapshot_failed_step(trainer->checkpoints.snapshot) != step)
        commands_take(trainer, clock_monotonic_ns() + ROUND_NS);
    if (commands_stopping(&trainer->commands) || links_broke(trainer))
        return -ECONNRESET;
    return trainer->checkpoints.refused_step == step ? -ESTALE
                                                     : 0; /* a newer plan names the next state */
}

/* On the other ranks: drive this node's copies. */
static void look_after_copies(struct trainer *trainer)
{
    struct error error = {0};

    snapshot_commit(trainer->checkpoints.snapshot, trainer->state->applied_step);
    if (checkpoint_duty_poll(trainer, 0, &error))
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
}

static int write_and_compare(struct trainer *trainer, struct error *error)
{
    checkpoint_writers_begin(&trainer->checkpoints.writers, trainer->plan,
                             trainer->state->applied_step);
    write_share(trainer);
    return compare(trainer, error); /* a bit may have changed since settle() */
}

static int run_round(struct trainer *trainer, struct final_checkpoint *final, struct error *error)
{
    AUTO_FREE struct step_commit_down *down = calloc(1, sizeof(*down));

    if (!down)
        return -ENOMEM;
    uint64_t durable =
        final_checkpoint_report(final, snapshot_durable_step(trainer->checkpoints.snapshot),
                                trainer->checkpoints.recorded_step);
    int status = closing_round(trainer, durable, down, error);
    if (status)
        return status;
    if (final->round == FINAL_CHECKPOINT_BEFORE) /* a refusal of another generation's checkpoint */
        trainer->checkpoints.refused_step = 0;
    final_checkpoint_hear(final, down);
    return 0;
}

static int look_after(struct trainer *trainer, const struct final_checkpoint *final)
{
    if (final->commits)
        return look_after_commit(trainer);
    look_after_copies(trainer);
    return 0;
}

static void try_again(struct trainer *trainer, struct final_checkpoint *final)
{
    snapshot_forget(trainer->checkpoints.snapshot);
    commands_take(trainer, clock_monotonic_ns() + RETRY_NS);
    final_checkpoint_begin(final, final->step, final->commits);
}

static int act(struct trainer *trainer, struct final_checkpoint *final, struct error *error)
{
    int status = 0;

    switch (final->action) {
    case FINAL_CHECKPOINT_SETTLE:
        status = settle(trainer, error);
        final_checkpoint_settled(final,
                                 snapshot_has_committed(trainer->checkpoints.snapshot, final->step,
                                                        trainer->plan->generation));
        break;
    case FINAL_CHECKPOINT_WRITE:
        status = write_and_compare(trainer, error);
        final_checkpoint_written(final);
        break;
    case FINAL_CHECKPOINT_ROUND:
        return run_round(trainer, final, error);
    case FINAL_CHECKPOINT_COMMIT:
        status = look_after(trainer, final);
        final_checkpoint_looked(final);
        break;
    case FINAL_CHECKPOINT_GIVE_UP:
        checkpoint_duty_give_up(trainer, final->step);
        final_checkpoint_given_up(final);
        break;
    case FINAL_CHECKPOINT_RETRY:
        try_again(trainer, final);
        break;
    case FINAL_CHECKPOINT_DONE:
        break;
    }
    return status;
}

/* Between two attempts the worker may be ordered to stop. */
static bool is_stopped(const struct trainer *trainer, const struct final_checkpoint *final)
{
    return final->action == FINAL_CHECKPOINT_SETTLE && commands_stopping(&trainer->commands);
}

enum session_outcome session_finish(struct trainer *trainer, enum session_outcome then,
                                    struct error *error)
{
    struct final_checkpoint final;
    uint64_t began_ns = clock_monotonic_ns();
    int status = generation_finish_handover(trainer, error);

    /* A regular checkpoint at this very boundary may have failed. Its files are removed on the
     * successful ranks too, and its division among writers may differ from the next one's. */
    snapshot_forget_abandoned(trainer->checkpoints.snapshot);
    final_checkpoint_begin(&final, trainer->state->applied_step, trainer->engine->part.rank == 0);
    while (!status && final.action != FINAL_CHECKPOINT_DONE && !is_stopped(trainer, &final))
        status = act(trainer, &final, error);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_FINAL_CHECKPOINT, final.step);
    if (final.action == FINAL_CHECKPOINT_DONE) {
        status_report_alarm(&trainer->report, ALARM_CHECKPOINT, "");
        return then;
    }
    if (commands_stopping(&trainer->commands))
        return SESSION_STOPPED;
    if (!error->code && status == -ESTALE)
        error_set(error, status,
                  "the record of the last checkpoint was refused: a newer plan names "
                  "the state to go on with");
    if (!error->code)
        error_set(error, status, "the links broke while the last checkpoint was written");
    return SESSION_BROKEN;
}
