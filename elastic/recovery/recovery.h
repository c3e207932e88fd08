/*
 * Decide which state survives a failure, as a pure function of the survivors' reports. No worker
 * applies a step before all workers hold its reduced gradients (protocol/step_commit.h). So each
 * survivor is BEFORE the step in flight, at HOLD, or has APPLIED it. It never happens that some are
 * BEFORE and others APPLIED:
 *
 *     every stage has a survivor, all at HOLD or APPLIED   the step stands: all apply it
 *     every stage has a survivor, one of them is BEFORE    the step is replayed in the next
 *                                                          generation, to the same bits
 *     some stage has none, worker or shadow                the newest checkpoint
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/messages/report.h"

enum recovery_kind {
    RECOVERY_STANDS, /* all survivors hold or have applied step `step`: all apply it, then
                        continue */
    RECOVERY_REPLAY, /* every unit survives at committed step `step`; the step in flight is replayed
                      */
    RECOVERY_CHECKPOINT, /* some unit has no survivor */
};

struct recovery {
    enum recovery_kind kind;
    uint64_t step; /* committed when the next generation starts (after applying `commit`) */
    /* RECOVERY_STANDS, and mixed APPLIED/HOLD: complete; step 0: nothing to apply */
    struct step_record commit;
    unsigned missing_unit; /* RECOVERY_CHECKPOINT: the first unit without survivor */
};

/**
 * recovery_decide() - decide by the reports of all surviving workers (those with held units count)
 *
 * A unit of a stage that has a shadow survives with the shadow as with any replica: a step commits
 * only when shadows hold it too.
 *
 * Let a be the largest applied_step. If every reporter has applied a and holds a + 1 and the union
 * of records is complete, a + 1 stands. Otherwise a unit survives if a reporter has it at applied
 * a, or (in its held range) at applied a - 1 with holds: that reporter then applies a by `commit`,
 * which is complete from an APPLIED reporter or from the union of HOLD records.
 *
 * A step has the same bits in every generation, so a reporter of an older generation may be behind
 * (then it does not count) or one step ahead of those that must replay that step (then a - 1 is
 * taken if a does not cover every unit). Within one generation there are two contradictions: a
 * reporter has neither applied nor holds a step that another has applied, or records differ in a
 * bit. They return -EBADMSG with the contradiction in @error: the caller goes back to the
 * checkpoint. A reporter of generation 0 may be at any step.
 *
 * @on_nan: with JOB_NAN_STOP a step whose loss or norm is not finite never stands. No worker has
 * applied such a step. It may come from a wrong bit of a lost worker, so the workers compute it
 * again, compare their state, and then decide whether it ends the job.
 *
 * Return: 0, -EBADMSG, -ENOMEM.
 */
int recovery_decide(const struct worker_report *reports, unsigned report_count, unsigned unit_count,
                    unsigned lane_count, enum job_nan on_nan, struct recovery *ret_recovery,
                    struct error *error) CHECK_RESULT;

struct recovery_range {
    unsigned first, count;
};

/**
 * recovery_ranges() - list the units of @report that are at recovery->step when the next generation
 * starts, `commit` applied; return the number of ranges, 0 with RECOVERY_CHECKPOINT
 *
 * A worker's own stage comes first, then the stages that it shadows: both count at APPLIED and at
 * HOLD. Units left from the previous generation do not count at HOLD: there are no gradients for
 * them.
 */
unsigned recovery_ranges(const struct recovery *recovery, const struct worker_report *report,
                         struct recovery_range ret_ranges[REPORT_RANGES_MAX]);
