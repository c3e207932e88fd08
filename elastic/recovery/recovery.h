/*
 * What survives a failure: a pure function over the reports of the survivors. Nobody applies a step
 * before everybody holds its reduced gradients (worker/step/step_commit.h), so each survivor is
 * BEFORE the step in flight, at HOLD, or has APPLIED it, and never are some BEFORE and others
 * APPLIED:
 *
 *     every stage has a survivor, all at HOLD or APPLIED   the step stands: all apply it
 *     every stage has a survivor, one of them is BEFORE    the step is replayed in the next
 *                                                          generation, to the same bits
 *     some stage has none, worker or shadow                the newest checkpoint
 */
#pragma once

#include "elastic/messages/report.h"
#include "elastic/plan/plan.h"

enum recovery_kind {
    RECOVERY_STANDS, /* everybody holds or has applied step `step`: all apply it, then go on */
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
 * recovery_decide() - from every surviving worker's report (those with held units count)
 *
 * A unit of a stage that somebody shadows survives with its shadow as with any replica: a step
 * commits only when shadows hold it too.
 *
 * Let a be the largest applied_step. If every reporter has applied a and holds a + 1 and the union
 * of records is complete, a + 1 stands. Else a unit survives when a reporter holds it at applied a,
 * or (in its held range) at applied a - 1 with holds: then it applies a by `commit`, complete from
 * an APPLIED reporter or from the union of HOLD records.
 *
 * A step has the same bits in every generation, so a reporter of an older generation may be behind
 * (it counts for nothing) or one step ahead of those that must replay that step (then a - 1 is
 * taken where a does not cover every unit). Within one generation that cannot be: a reporter that
 * has neither applied nor holds what another of its generation has applied, and records that differ
 * in a bit, are -EBADMSG with the text of the contradiction: the caller goes back to the
 * checkpoint. A reporter of generation 0 may be anywhere.
 *
 * @on_nan: with JOB_NAN_STOP a step whose loss or norm is no finite number never stands. Nobody has
 * applied it, and whether the job ends by it is for its workers to say, when all have computed it
 * again and compared what they hold: a wrong bit of one that is gone may have made it.
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
 * recovery_ranges() - the units of @report that are at recovery->step when the next generation
 * starts, `commit` applied: as many ranges as are returned; RECOVERY_CHECKPOINT: none
 *
 * A worker's own stage comes first, then the stages that it shadows: both count at APPLIED and at
 * HOLD. What is left of the generation before does not count at HOLD: there are no gradients for
 * it.
 */
unsigned recovery_ranges(const struct recovery *recovery, const struct worker_report *report,
                         struct recovery_range ret_ranges[REPORT_RANGES_MAX]);
