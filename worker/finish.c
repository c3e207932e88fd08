/*
 * The end of a job or of its stay on the cluster: all ranks write the boundary's checkpoint
 * together, rank 0 commits it and has firnd record it, and nobody leaves before that is done. What
 * is recorded has been compared, as in every commit (worker/state_check.h).
 *
 * A full disk does not end a run that has cost days: the checkpoint is tried again, with an alarm,
 * until it succeeds or somebody orders the worker to stop.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/orders.h"
#include "worker/session.h"
#include "worker/state_check.h"
#include "worker/telling.h"

#define RETRY_NS (2 * NS_PER_SECOND)

/* One round of the commit tree without a step: everybody's word on the checkpoint. */
static int closing_round(struct trainer *trainer, struct exchange_down *down, struct error *error)
{
    AUTO_FREE struct exchange_up *up = calloc(1, sizeof(*up));

    const struct exchange_root root = {0};

    if (!up)
        return -ENOMEM;
    step_record_init(&up->record, trainer->state->applied_step, 0, 0);
    up->data_digest = dataset_digest(trainer->dataset).low;
    up->checkpoint_durable = snapshot_durable_step(trainer->snapshot);
    up->checkpoint_failed = snapshot_failed_step(trainer->snapshot);
    return session_agree(trainer, true, up, &root, down, error);
}

/* This rank's share, durable or failed; never a reason to stop. */
static void write_share(struct trainer *trainer)
{
    const struct state *state = trainer->state;
    struct error error = {0};
    int status = 0;

    if (snapshot_durable_step(trainer->snapshot) == state->applied_step)
        return;
    snapshot_give_up_copies(trainer->snapshot, state->applied_step);
    telling_checkpoint(trainer); /* or one that was just through */
    do {                         /* a share of an earlier boundary may still be on its way */
        status = snapshot_poll(trainer->snapshot, clock_monotonic_ns() + RETRY_NS, &error);
        if (!status)
            status =
                snapshot_begin(trainer->snapshot, trainer->plan, trainer->engine->rank, &error);
    } while (status == -EBUSY && !orders_stopping(trainer));
    while (!status && snapshot_durable_step(trainer->snapshot) != state->applied_step &&
           !orders_stopping(trainer))
        status = snapshot_poll(trainer->snapshot, clock_monotonic_ns() + RETRY_NS, &error);
    if (status)
        telling_checkpoint_alarm(trainer, &error);
}

/* Rank 0: from durable shares to a record in etcd. That it cannot be committed is no error here:
 * the next round says it to everybody. */
static int commit_final(struct trainer *trainer)
{
    uint64_t step = trainer->state->applied_step;

    trainer->refused_step = 0; /* that was a word on what another generation made */
    while (trainer->recorded_step < step && snapshot_failed_step(trainer->snapshot) != step) {
        struct mesh_fault fault;
        snapshot_commit(trainer->snapshot, step); /* once the commit before it is through */
        telling_checkpoint(trainer);
        orders_take(trainer, clock_monotonic_ns() + NS_PER_SECOND / 20);
        mesh_fault(trainer->mesh, &fault);
        if (orders_stopping(trainer) || fault.failed)
            return -ECONNRESET;
        if (trainer->refused_step == step) /* a newer plan says where to go on */
            return -ESTALE;
    }
    return 0;
}

static bool is_written(const struct trainer *trainer, const struct exchange_down *down)
{
    uint64_t step = trainer->state->applied_step;

    return down->checkpoint_durable == step && down->checkpoint_failed != step;
}

/*
 * All write, all hear how that went; rank 0 commits what is whole or removes what is not; all hear
 * how that went. Nobody writes again before rank 0 has removed what was written in vain.
 */
static int finish_round(struct trainer *trainer, struct exchange_down *down, struct error *error)
{
    const struct engine *engine = trainer->engine;
    int status;

    write_share(trainer);
    state_check_run(engine->check, engine->plan, engine->rank, true);
    status = trainer->kernel->synchronize(trainer->device, error);
    if (!status)
        status = closing_round(trainer, down, error);
    if (!status && !is_written(trainer, down))
        snapshot_abandon(trainer->snapshot, trainer->state->applied_step);
    else if (!status && trainer->engine->rank == 0)
        status = commit_final(trainer);
    else if (!status)
        snapshot_commit(trainer->snapshot, trainer->state->applied_step);
    if (!status)
        status = closing_round(trainer, down, error);
    if (!status && !is_written(trainer, down))
        snapshot_forget(trainer->snapshot);
    return status;
}

enum session_outcome session_finish(struct trainer *trainer, enum session_outcome then,
                                    struct error *error)
{
    AUTO_FREE struct exchange_down *down = calloc(1, sizeof(*down));
    int status = down ? 0 : -ENOMEM;

    while (!status && !orders_stopping(trainer)) {
        status = finish_round(trainer, down, error);
        if (!status && is_written(trainer, down)) {
            telling_alarm(trainer, ALARM_CHECKPOINT, "");
            return then;
        }
        if (!status)
            orders_take(trainer, clock_monotonic_ns() + RETRY_NS);
    }
    if (orders_stopping(trainer))
        return SESSION_STOPPED;
    if (!error->code)
        error_set(error, status, "the links broke while the last checkpoint was written");
    return SESSION_BROKEN;
}
