#include "worker/session/divergence.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

static const char *word_of(double value)
{
    return isnan(value) ? "NaN" : "infinite";
}

int divergence_check(const struct job_training *training, const struct step_record *record,
                     struct error *error)
{
    double loss = step_record_loss(record, 1), norm = step_record_norm(record);

    if (training->on_nan == JOB_NAN_SKIP || step_record_finite(record))
        return 0;
    return error_set(error, -EDOM,
                     "step %" PRIu64 ": the %s is %s, so it changes no parameter (train.on_nan: "
                     "stop)",
                     record->step, isfinite(loss) ? "gradient norm" : "loss",
                     word_of(isfinite(loss) ? norm : loss));
}

const char *divergence_alarm(struct divergence *divergence, const struct step_record *record)
{
    if (!step_record_finite(record))
        divergence->last_step = record->step;
    else if (record->step < divergence->last_step) /* the job went back, and replays that step */
        divergence->last_step = 0;
    bool calm =
        divergence->last_step == 0 || record->step >= divergence->last_step + DIVERGENCE_CALM_STEPS;
    return calm ? ""
                : "steps are left out because their loss or gradient is no finite number "
                  "(train.on_nan: skip); firnctl metrics shows which";
}
