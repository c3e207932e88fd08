/*
 * What survives a failure: DESIGN 4's table as a pure function over the reports of the survivors.
 */
#pragma once

#include "elastic/plan.h"
#include "elastic/report.h"

enum recovery_kind {
    RECOVERY_STANDS,     /* everybody holds or has applied step `step`: all apply it, then go on */
    RECOVERY_REPLAY,     /* every unit survives at committed step `step`; the step in flight is replayed */
    RECOVERY_CHECKPOINT, /* some unit has no survivor */
};

struct recovery {
    enum recovery_kind kind;
    uint64_t step;            /* committed when the next generation starts (after applying `commit`) */
    struct step_record commit; /* RECOVERY_STANDS, and mixed APPLIED/HOLD: complete; step 0: nothing to apply */
    unsigned missing_unit;    /* RECOVERY_CHECKPOINT: the first unit without survivor */
};

/**
 * recovery_decide() - from every surviving worker's report (those with held units count)
 *
 * Let a be the largest applied_step. A unit survives when a reporter holds it at applied a, or at
 * applied a - 1 with holds (then it applies a by `commit`, complete from an APPLIED reporter or from
 * the union of HOLD records). If all have applied a and all of them hold a + 1 and the union of records is
 * complete, a + 1 stands. Reports that contradict this (a gap of two steps, differing records) are
 * -EBADMSG with the text of the contradiction: the caller goes back to the checkpoint.
 */
int recovery_decide(const struct worker_report *reports, unsigned report_count, unsigned unit_count,
                    unsigned lane_count, struct recovery *ret_recovery, struct error *error) CHECK_RESULT;
