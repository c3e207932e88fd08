#include "protocol/checkpoint_calendar.h"

/* The newest boundary up to @step at which the job names a checkpoint; 0: none. */
static uint64_t last_due(const struct job_spec *spec, uint64_t step)
{
    return spec->checkpoint.every ? step - step % spec->checkpoint.every : 0;
}

void checkpoint_calendar_begin(struct checkpoint_calendar *calendar, const struct job_spec *spec,
                               const struct plan *plan, uint64_t applied_step)
{
    bool missed = plan->start.source == PLAN_SOURCE_MEMORY &&
                  last_due(spec, applied_step) > plan->checkpoints.recorded_step;

    *calendar = (struct checkpoint_calendar){
        .spec = spec, .began_step = applied_step, .missed_due = missed ? applied_step + 1 : 0};
}

bool checkpoint_calendar_due(const struct checkpoint_calendar *calendar, uint64_t step)
{
    const struct job_spec *spec = calendar->spec;

    if (!spec->checkpoint.every || step == spec->train.steps)
        return false;
    return last_due(spec, step) == step ||
           (step == calendar->missed_due &&
            last_due(spec, step) == last_due(spec, calendar->began_step));
}

void checkpoint_calendar_left_out(struct checkpoint_calendar *calendar, uint64_t step)
{
    if (step == calendar->missed_due)
        calendar->missed_due = step + (step - calendar->began_step);
}
