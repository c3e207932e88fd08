/*
 * This worker's part in the checkpoints of its generation: its share, the reports on shares that
 * ride with commits, the writers that follow from them, and the vote on a checkpoint while the next
 * step is computed (protocol/checkpoint_vote.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "protocol/step_commit.h"
#include "worker/session/session.h"

struct engine_part;
struct trainer;

/** checkpoint_duty_report_share() - write this rank's report of a failed share into @up */
void checkpoint_duty_report_share(const struct session_checkpoints *checkpoints,
                                  const struct engine_part *part, struct step_commit_up *up);
/** checkpoint_duty_take_reports() - process the reports of all ranks in @down, after every round */
void checkpoint_duty_take_reports(struct session_checkpoints *checkpoints,
                                  const struct step_commit_down *down);
/**
 * checkpoint_duty_is_busy() - true if no checkpoint can begin yet: snapshot_busy(), or more
 * checkpoints than the job keeps are on disk without a record because firnd or etcd is away. More
 * would only fill the disk
 */
bool checkpoint_duty_is_busy(const struct trainer *trainer);
/** checkpoint_duty_tell_busy() - log why the checkpoint that is due is skipped; only rank 0 knows
 * all reasons
 */
void checkpoint_duty_tell_busy(const struct trainer *trainer);
/** checkpoint_duty_begin() - call snapshot_begin() with the writers chosen last; its errors */
int checkpoint_duty_begin(struct trainer *trainer, struct error *error) CHECK_RESULT;
/** checkpoint_duty_poll() - call snapshot_poll(), and record a share that has ended in the trace;
 * its errors */
int checkpoint_duty_poll(struct trainer *trainer, uint64_t deadline_ns,
                         struct error *error) CHECK_RESULT;
/** checkpoint_duty_give_up() - remove this worker's files of the checkpoint of @failed_step, in
 * which some worker failed. That worker has raised its own alarm; rank 0 raises the job's */
void checkpoint_duty_give_up(struct trainer *trainer, uint64_t failed_step);
/** checkpoint_duty_begin_vote() - open the vote on the checkpoint that all ranks have just begun */
void checkpoint_duty_begin_vote(struct trainer *trainer);
/** checkpoint_duty_look() - between two micro-batches: advance the share, the vote and the commit,
 * and report a commit that has ended. Does nothing while no checkpoint is in flight. The step
 * reports a failure of the links */
void checkpoint_duty_look(struct trainer *trainer);
