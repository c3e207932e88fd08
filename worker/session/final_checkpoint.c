/*
 * The checkpoint at the end of a job or of its stay on the cluster: all ranks write the boundary's
 * checkpoint together, rank 0 commits it and has firnd record it, and no rank leaves before that is
 * done. The recorded state has been compared, as in every commit (worker/state/state_digest.h).
 *
 * There are no more step commits to carry the ranks' reports, so the ranks run rounds without a
 * step, again and again: rank 0 learns at once of a keeper that cannot do its part, and does not
 * wait for it.
 *
 * A full disk does not end a run that has cost days: the checkpoint is retried, with an alarm,
 * until it succeeds or the worker is ordered to stop.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/session/checkpoint_duty.h"
#include "worker/session/commands.h"
#include "worker/session/commit_agreement.h"
#include "worker/session/session.h"
#include "worker/session/status_report.h"
#include "worker/session/trainer.h"
#include "worker/state/state_digest.h"

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

/* Write this rank's share until it is durable or has failed; a failure does not end the round. */
static void write_share(struct trainer *trainer)
{
    const struct state *state = trainer->state;
    struct error error = {0};
    int status = 0;

    if (snapshot_durable_step(trainer->checkpoints.snapshot) == state->applied_step)
        return;
    snapshot_give_up_copies(trainer->checkpoints.snapshot, state->applied_step);
    status_report_checkpoint(trainer); /* may be of a commit that has just ended */
    do {                               /* a share of an earlier boundary may still be in flight */
        status =
            snapshot_poll(trainer->checkpoints.snapshot, clock_monotonic_ns() + RETRY_NS, &error);
        if (!status)
            status = checkpoint_duty_begin(trainer, &error);
    } while (status == -EBUSY && !commands_stopping(&trainer->commands));
    while (!status && snapshot_durable_step(trainer->checkpoints.snapshot) != state->applied_step &&
           !commands_stopping(&trainer->commands))
        status =
            snapshot_poll(trainer->checkpoints.snapshot, clock_monotonic_ns() + RETRY_NS, &error);
    if (status)
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
}

static bool has_failed(const struct state *state, const struct step_commit_down *down)
{
    return down->checkpoint_failed == state->applied_step;
}

static bool is_durable(const struct state *state, const struct step_commit_down *down)
{
    return down->checkpoint_durable == state->applied_step && !has_failed(state, down);
}

/* On rank 0, until the next round is due. A failed commit is not an error here: the round reports
 * it to all ranks. */
static int look_after_commit(struct trainer *trainer)
{
    uint64_t step = trainer->state->applied_step;
    struct mesh_fault fault;

    snapshot_commit(trainer->checkpoints.snapshot,
                    step); /* starts once the commit before it has ended */
    status_report_checkpoint(trainer);
    if (trainer->checkpoints.recorded_step < step &&
        snapshot_failed_step(trainer->checkpoints.snapshot) != step)
        commands_take(trainer, clock_monotonic_ns() + ROUND_NS);
    mesh_fault(trainer->links.mesh, &fault);
    if (commands_stopping(&trainer->commands) || fault.failed)
        return -ECONNRESET;
    return trainer->checkpoints.refused_step == step ? -ESTALE
                                                     : 0; /* a newer plan names the next state */
}

/* On the other ranks: drive this node's copies. */
static void look_after_copies(struct trainer *trainer)
{
    struct error error = {0};

    snapshot_commit(trainer->checkpoints.snapshot, trainer->state->applied_step);
    if (snapshot_poll(trainer->checkpoints.snapshot, 0, &error))
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
}

/* All shares are durable: run rounds until the checkpoint is recorded, or one rank reports that it
 * cannot be. */
static int record(struct trainer *trainer, struct step_commit_down *down, struct error *error)
{
    uint64_t step = trainer->state->applied_step;
    bool commits = trainer->engine->part.rank == 0;
    int status = 0;

    trainer->checkpoints.refused_step =
        0; /* a refusal of another generation's checkpoint does not count */
    do {
        if (commits)
            status = look_after_commit(trainer);
        else
            look_after_copies(trainer);
        if (!status)
            status = closing_round(trainer,
                                   commits && trainer->checkpoints.recorded_step < step ? 0 : step,
                                   down, error);
    } while (!status && !is_durable(trainer->state, down) && !has_failed(trainer->state, down));
    return status;
}

/* No rank writes again before every rank has removed the files of the failed attempt. */
static int give_up(struct trainer *trainer, struct error *error)
{
    AUTO_FREE struct step_commit_down *down = calloc(1, sizeof(*down));
    int status;

    if (!down)
        return -ENOMEM;
    checkpoint_duty_give_up(trainer, trainer->state->applied_step);
    status = closing_round(trainer, 0, down, error);
    if (!status)
        snapshot_forget(trainer->checkpoints.snapshot);
    return status;
}

/* All ranks write and learn the result; then rank 0 commits the complete shares, and all ranks
 * learn that result. */
static int finish_round(struct trainer *trainer, bool *ret_recorded, struct error *error)
{
    const struct engine *engine = trainer->engine;
    AUTO_FREE struct step_commit_down *down = calloc(1, sizeof(*down));
    int status;

    if (!down)
        return -ENOMEM;
    checkpoint_writers_begin(&trainer->checkpoints.writers, trainer->plan,
                             trainer->state->applied_step);
    write_share(trainer);
    state_digest_run(engine->check, &engine->plan->layout, engine->part.rank, true);
    status = trainer->device.kernel->synchronize(trainer->device.device, error);
    if (!status)
        status = closing_round(trainer, snapshot_durable_step(trainer->checkpoints.snapshot), down,
                               error);
    if (!status && is_durable(trainer->state, down))
        status = record(trainer, down, error);
    *ret_recorded = !status && is_durable(trainer->state, down);
    return status || *ret_recorded ? status : give_up(trainer, error);
}

enum session_outcome session_finish(struct trainer *trainer, enum session_outcome then,
                                    struct error *error)
{
    bool recorded = false;
    int status = 0;

    /* A regular checkpoint at this very boundary may have failed. Its files are removed on the
       ranks that succeeded, too, and its division among writers may differ from the next one's. */
    snapshot_forget_abandoned(trainer->checkpoints.snapshot);
    while (!status && !commands_stopping(&trainer->commands)) {
        status = finish_round(trainer, &recorded, error);
        if (recorded) {
            status_report_alarm(&trainer->report, ALARM_CHECKPOINT, "");
            return then;
        }
        if (!status)
            commands_take(trainer, clock_monotonic_ns() + RETRY_NS);
    }
    if (commands_stopping(&trainer->commands))
        return SESSION_STOPPED;
    if (!error->code)
        error_set(error, status, "the links broke while the last checkpoint was written");
    return SESSION_BROKEN;
}
