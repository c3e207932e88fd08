#include "worker/session/checkpoint_duty.h"

#include "worker/session/status_report.h"
#include "worker/session/trainer.h"

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
}

int checkpoint_duty_begin(struct trainer *trainer, struct error *error)
{
    return snapshot_begin(trainer->checkpoints.snapshot, trainer->plan, trainer->engine->part.rank,
                          trainer->checkpoints.writers.left_out, error);
}
