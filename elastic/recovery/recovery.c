/*
 * Problem: after a failure each survivor knows only its own progress; together the survivors must
 * agree on one step from which the next generation starts, with the fewest steps lost and all bits
 * exact.
 *
 * Design: a step t is reachable for a reporter that has applied t, or that holds the gradients of t
 * and can receive the norms of all. The best t whose reachable reporters own every unit wins. A
 * step that no reporter has applied yet stands only when all reporters hold it: otherwise replaying
 * it is cheaper than moving state to the other reporters.
 *
 * Invariants: commit is complete; every unit has an owner in recovery_ranges() unless the kind is
 * CHECKPOINT; a step that a reporter applied stays unless its owner is cut off from the others'
 * past.
 */
#include "elastic/recovery/recovery.h"

#include <errno.h>
#include <string.h>

struct evidence {
    const struct worker_report *reports;
    unsigned report_count, unit_count, lane_count;
    enum job_nan on_nan;
    uint64_t applied;           /* the largest */
    struct step_record *record; /* scratch: the union of all reporters' records of one step */
    bool *covered;              /* scratch: unit_count */
};

static bool has_state(const struct worker_report *report)
{
    return report->held_unit_count > 0 || report->old_unit_count > 0;
}

/* Return the last step whose gradients the reporter holds, or that it has applied. */
static uint64_t reach(const struct worker_report *report)
{
    return report->applied_step + (report->holds ? 1 : 0);
}

static uint64_t largest_applied(const struct evidence *evidence)
{
    uint64_t applied = 0;
    for (unsigned i = 0; i < evidence->report_count; i++)
        if (has_state(&evidence->reports[i]))
            applied = MAX(applied, evidence->reports[i].applied_step);
    return applied;
}

/* Check that each generation moved as one: with a the largest applied step of a generation, a
 * reporter that neither is at a - 1 with gradients nor at a contradicts the others. */
static int check_generations(const struct evidence *evidence, struct error *error)
{
    for (unsigned i = 0; i < evidence->report_count; i++) {
        const struct worker_report *behind = &evidence->reports[i];
        if (!has_state(behind) || !worker_report_entered(behind) ||
            reach(behind) >= evidence->applied)
            continue; /* no reporter can be ahead of it, or it moves on its own */
        for (unsigned j = 0; j < evidence->report_count; j++) {
            const struct worker_report *ahead = &evidence->reports[j];
            if (has_state(ahead) && ahead->generation == behind->generation &&
                ahead->applied_step > reach(behind))
                return error_set(error, -EBADMSG,
                                 "in generation %llu slot %u has applied step %llu while slot %u "
                                 "has not come past %llu",
                                 (unsigned long long)ahead->generation, ahead->slot,
                                 (unsigned long long)ahead->applied_step, behind->slot,
                                 (unsigned long long)reach(behind));
        }
    }
    return 0;
}

/* Merge all reporters' records of @step into evidence->record. */
static int gather_record(struct evidence *evidence, uint64_t step, struct error *error)
{
    step_record_init(evidence->record, step, evidence->unit_count, evidence->lane_count);
    for (unsigned i = 0; i < evidence->report_count; i++) {
        const struct worker_report *report = &evidence->reports[i];
        if (!has_state(report) || report->record.step != step || step == 0)
            continue;
        int status = step_record_merge(evidence->record, &report->record);
        if (status < 0)
            return error_set(error, status,
                             "slot %u reports other values of step %llu than the others",
                             report->slot, (unsigned long long)step);
    }
    return 0;
}

unsigned recovery_ranges(const struct recovery *recovery, const struct worker_report *report,
                         struct recovery_range ret_ranges[REPORT_RANGES_MAX])
{
    unsigned count = 0;
    if (recovery->kind == RECOVERY_CHECKPOINT)
        return 0;
    bool applied = report->applied_step == recovery->step;
    bool applies = report->holds && report->applied_step + 1 == recovery->step &&
                   recovery->commit.step == recovery->step;
    if ((applied || applies) && report->held_unit_count > 0)
        ret_ranges[count++] =
            (struct recovery_range){report->held_first_unit, report->held_unit_count};
    if (applied && report->old_unit_count > 0)
        ret_ranges[count++] =
            (struct recovery_range){report->old_first_unit, report->old_unit_count};
    for (unsigned i = 0; i < report->extra_count; i++)
        if (applied || (applies && report->extras[i].shadows))
            ret_ranges[count++] =
                (struct recovery_range){report->extras[i].first, report->extras[i].count};
    return count;
}

/* Return the first unit that no reporter has at recovery->step; unit_count: none is missing. */
static unsigned first_missing(const struct evidence *evidence, const struct recovery *recovery)
{
    memset(evidence->covered, 0, evidence->unit_count * sizeof(bool));
    for (unsigned i = 0; i < evidence->report_count; i++) {
        struct recovery_range ranges[REPORT_RANGES_MAX];
        unsigned count = recovery_ranges(recovery, &evidence->reports[i], ranges);
        for (unsigned r = 0; r < count; r++)
            for (unsigned n = 0; n < ranges[r].count; n++)
                if (ranges[r].first + n < evidence->unit_count)
                    evidence->covered[ranges[r].first + n] = true;
    }
    unsigned unit = 0;
    while (unit < evidence->unit_count && evidence->covered[unit])
        unit++;
    return unit;
}

/* Return whether some reporter needs `commit` to be at the step. */
static bool someone_applies(const struct evidence *evidence, const struct recovery *recovery)
{
    for (unsigned i = 0; i < evidence->report_count; i++)
        if (has_state(&evidence->reports[i]) && evidence->reports[i].holds &&
            evidence->reports[i].applied_step + 1 == recovery->step)
            return true;
    return false;
}

static bool everybody_holds_next(const struct evidence *evidence)
{
    for (unsigned i = 0; i < evidence->report_count; i++) {
        const struct worker_report *report = &evidence->reports[i];
        if (has_state(report) && reach(report) >= evidence->applied &&
            (!report->holds || report->applied_step != evidence->applied))
            return false;
    }
    return true;
}

/* Return whether the union of records is complete, and the step may be applied. */
static bool may_stand(const struct evidence *evidence)
{
    return step_record_complete(evidence->record) &&
           (evidence->on_nan == JOB_NAN_SKIP || step_record_finite(evidence->record));
}

/* Compute the outcome if the next generation started from @step, and the first missing unit. */
static int try_step(struct evidence *evidence, uint64_t step, struct recovery *ret_recovery,
                    unsigned *ret_missing, struct error *error)
{
    int status = gather_record(evidence, step, error);
    if (status < 0)
        return status;
    ret_recovery->kind = RECOVERY_REPLAY;
    ret_recovery->step = step;
    ret_recovery->commit.step = 0;
    if (may_stand(evidence)) {
        ret_recovery->commit = *evidence->record;
        if (someone_applies(evidence, ret_recovery))
            ret_recovery->kind = RECOVERY_STANDS;
        else
            ret_recovery->commit.step = 0;
    }
    *ret_missing = first_missing(evidence, ret_recovery);
    return 0;
}

static int decide(struct evidence *evidence, struct recovery *ret_recovery, struct error *error)
{
    unsigned missing = evidence->unit_count, lower_missing;
    int status = check_generations(evidence, error);
    if (status == 0)
        status = try_step(evidence, evidence->applied + 1, ret_recovery, &missing, error);
    if (status < 0)
        return status;
    if (missing == evidence->unit_count && ret_recovery->kind == RECOVERY_STANDS &&
        everybody_holds_next(evidence))
        return 0;
    status = try_step(evidence, evidence->applied, ret_recovery, &missing, error);
    if (status < 0 || missing == evidence->unit_count)
        return status;
    if (evidence->applied > 0) {
        status = try_step(evidence, evidence->applied - 1, ret_recovery, &lower_missing, error);
        if (status < 0 || lower_missing == evidence->unit_count)
            return status;
    }
    memset(ret_recovery, 0, sizeof(*ret_recovery));
    ret_recovery->kind = RECOVERY_CHECKPOINT;
    ret_recovery->missing_unit = missing;
    return 0;
}

int recovery_decide(const struct worker_report *reports, unsigned report_count, unsigned unit_count,
                    unsigned lane_count, enum job_nan on_nan, struct recovery *ret_recovery,
                    struct error *error)
{
    AUTO_FREE struct step_record *record = malloc(sizeof(*record));
    AUTO_FREE struct recovery *recovery = calloc(1, sizeof(*recovery));
    AUTO_FREE bool *covered = calloc((size_t)unit_count + 1, sizeof(bool));
    if (!record || !recovery || !covered)
        return error_set(error, -ENOMEM, "no memory to weigh %u reports", report_count);
    struct evidence evidence = {.reports = reports,
                                .report_count = report_count,
                                .unit_count = unit_count,
                                .lane_count = lane_count,
                                .on_nan = on_nan,
                                .record = record,
                                .covered = covered};
    evidence.applied = largest_applied(&evidence);
    int status = decide(&evidence, recovery, error);
    if (status == 0)
        *ret_recovery = *recovery;
    return status;
}
