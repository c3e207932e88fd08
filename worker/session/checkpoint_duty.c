#include "worker/session/checkpoint_duty.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "worker/device/tags.h"
#include "worker/session/status_report.h"
#include "worker/session/trainer.h"
#include "worker/state/state_digest.h"
#include "worker/trace/recorder.h"

void checkpoint_duty_give_up(struct trainer *trainer, uint64_t failed_step)
{
    if (snapshot_abandon(trainer->checkpoints.snapshot, failed_step) &&
        trainer->engine->part.rank == 0 && !trainer->report.alarms.texts[ALARM_CHECKPOINT][0])
        status_report_alarm(
            &trainer->report, ALARM_CHECKPOINT,
            "checkpoints are given up: a worker cannot write its share (firnctl job "
            "events says why)");
}

void checkpoint_duty_report_share(const struct session_checkpoints *checkpoints,
                                  const struct engine_part *part, struct step_commit_up *up)
{
    up->checkpoint_failed = snapshot_failed_step(checkpoints->snapshot);
    up->unable = (struct checkpoint_writers_unable){0};
    if (snapshot_unable(checkpoints->snapshot))
        up->unable = (struct checkpoint_writers_unable){.count = 1, .ranks = {part->rank}};
}

void checkpoint_duty_take_reports(struct session_checkpoints *checkpoints,
                                  const struct step_commit_down *down)
{
    checkpoint_writers_hear(&checkpoints->writers, down->checkpoint_failed, &down->unable,
                            down->checkpoint_durable);
    if (MAX(down->checkpoint_durable, down->checkpoint_failed) >= checkpoints->vote.step)
        checkpoint_vote_close(&checkpoints->vote);
}

static bool is_unanswered(const struct trainer *trainer)
{
    return trainer->checkpoints.unanswered > trainer->spec.checkpoint.keep;
}

bool checkpoint_duty_is_busy(const struct trainer *trainer)
{
    return snapshot_busy(trainer->checkpoints.snapshot) || is_unanswered(trainer);
}

void checkpoint_duty_tell_busy(const struct trainer *trainer)
{
    char why[80] = "the one before is not written or recorded yet";

    if (is_unanswered(trainer))
        snprintf(why, sizeof(why), "%u before it wait for their record in etcd",
                 trainer->checkpoints.unanswered);
    log_warning("the checkpoint of step %" PRIu64 " is left out: %s", trainer->state->applied_step,
                why);
}

int checkpoint_duty_begin(struct trainer *trainer, struct error *error)
{
    struct session_checkpoints *checkpoints = &trainer->checkpoints;
    uint64_t began_ns = clock_monotonic_ns(), step = trainer->state->applied_step;
    int status = snapshot_begin(checkpoints->snapshot, trainer->plan, trainer->engine->part.rank,
                                checkpoints->writers.left_out, error);

    recorder_add_kind(trainer->recorder, began_ns, TRACE_SNAPSHOT, step);
    if (!status) {
        checkpoints->writing_step = step;
        checkpoints->writing_since_ns = began_ns;
    }
    return status;
}

/* The share is written while steps continue: its span ends when this thread learns of the end. */
static void record_writing(struct session_checkpoints *checkpoints, struct recorder *recorder)
{
    uint64_t step = checkpoints->writing_step;

    if (!step || (snapshot_durable_step(checkpoints->snapshot) != step &&
                  snapshot_failed_step(checkpoints->snapshot) != step))
        return;
    recorder_add_kind(recorder, checkpoints->writing_since_ns, TRACE_WRITE, step);
    checkpoints->writing_step = 0;
}

int checkpoint_duty_poll(struct trainer *trainer, uint64_t deadline_ns, struct error *error)
{
    int status = snapshot_poll(trainer->checkpoints.snapshot, deadline_ns, error);

    record_writing(&trainer->checkpoints, trainer->recorder);
    return status;
}

/* ---- while a step is computed ---- */

void checkpoint_duty_begin_vote(struct trainer *trainer)
{
    checkpoint_vote_begin(&trainer->checkpoints.vote, &trainer->plan->layout,
                          trainer->engine->part.rank, trainer->state->applied_step);
}

/* Compute the digests for the vote. After the step that follows the checkpoint, a commit has
 * compared the state. A failed device may have given the share other bytes: then no vote is cast,
 * and the step sees the failure. */
static int find_digests(struct trainer *trainer, const struct unit_digests **ret_digests)
{
    const struct engine *engine = trainer->engine;
    struct error error = {0};

    *ret_digests = NULL;
    carrier_guard(engine->routes->guard);
    if (trainer->state->applied_step == trainer->checkpoints.vote.step)
        *ret_digests = state_digest_all(engine->check, &engine->plan->layout, engine->part.rank);
    int status = trainer->device.kernel->synchronize(trainer->device.device, &error);
    int guarded = carrier_unguard(engine->routes->guard);
    return status ? status : guarded;
}

/* Cast this rank's vote if its share is durable. */
static void cast_vote(struct trainer *trainer)
{
    struct checkpoint_vote *vote = &trainer->checkpoints.vote;
    const struct unit_digests *digests;

    if (!vote->is_cast && snapshot_durable_step(trainer->checkpoints.snapshot) == vote->step &&
        !find_digests(trainer, &digests))
        checkpoint_vote_cast(vote, digests);
}

/* ---- the vote over the mesh ---- */

static uint64_t tag_of(bool is_answer)
{
    return tag_make(TAG_CHECKPOINT_VOTE, 0, is_answer);
}

static int take(void *context, unsigned peer, bool is_answer, struct bytes *ret_message)
{
    const struct trainer *trainer = context;
    void *data = NULL;
    size_t size_bytes = 0;
    int status =
        mesh_receive_any(trainer->links.mesh, peer, tag_of(is_answer), 1, &data, &size_bytes);

    if (!status)
        *ret_message =
            (struct bytes){.data = data, .size_bytes = size_bytes, .capacity_bytes = size_bytes};
    return status == -ETIMEDOUT ? -EAGAIN : status;
}

static int send_to(void *context, unsigned peer, bool is_answer, const struct bytes *message)
{
    const struct trainer *trainer = context;

    return mesh_send(trainer->links.mesh, peer, tag_of(is_answer), message->data,
                     message->size_bytes, NULL);
}

static void run_vote(struct trainer *trainer)
{
    const struct checkpoint_vote_links links = {trainer, take, send_to};
    struct checkpoint_vote *vote = &trainer->checkpoints.vote;

    cast_vote(trainer);
    if (checkpoint_vote_run(vote, &links) == -EBADMSG)
        mesh_abort(trainer->links.mesh, "a vote on a checkpoint makes no sense");
    if (vote->action != CHECKPOINT_VOTE_AGREED)
        return;
    trainer->commit.agreed_step = MAX(trainer->commit.agreed_step, vote->step);
    snapshot_commit(trainer->checkpoints.snapshot, vote->step);
    checkpoint_vote_close(vote);
}

void checkpoint_duty_look(struct trainer *trainer)
{
    struct snapshot *snapshot = trainer->checkpoints.snapshot;
    bool is_open = trainer->checkpoints.vote.action != CHECKPOINT_VOTE_CLOSED;
    struct error error = {0};

    if (!is_open && snapshot_settled(snapshot))
        return;
    if (checkpoint_duty_poll(trainer, 0, &error))
        status_report_checkpoint_alarm(trainer->options, &trainer->report, &error);
    uint64_t began_ns = clock_monotonic_ns();
    if (is_open)
        run_vote(trainer);
    recorder_add_kind(trainer->recorder, began_ns, TRACE_VOTE, trainer->state->applied_step + 1);
    if (trainer->engine->part.rank == 0)
        status_report_checkpoint(trainer, true);
}
