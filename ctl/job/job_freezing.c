#include "ctl/job/job_freezing.h"

#include <inttypes.h>
#include <stdio.h>

/* The decisions, or with `plasticity` measurements, until a layer can freeze. */
static uint64_t least_decisions(const struct job_freezing *freezing)
{
    return freezing->policy == JOB_FREEZE_PLASTICITY ? 2 * (uint64_t)freezing->patience + 1 : 1;
}

bool job_freezing_hint(const struct job_spec *spec, char ret_words[JOB_FREEZING_WORDS_SIZE])
{
    const struct job_freezing *freezing = &spec->elastic.freeze;
    bool plasticity = freezing->policy == JOB_FREEZE_PLASTICITY;
    uint64_t first;

    if (freezing->policy == JOB_FREEZE_NONE)
        return false;
    if (!__builtin_mul_overflow(least_decisions(freezing), freezing->every, &first) &&
        !__builtin_add_overflow(freezing->after, first, &first) && first <= spec->train.steps)
        return false;
    snprintf(ret_words, JOB_FREEZING_WORDS_SIZE,
             "no layer can freeze: the first could after more steps than the %" PRIu64
             " of train.steps (elastic.freeze.after + %" PRIu64 " x elastic.freeze.every%s)",
             spec->train.steps, least_decisions(freezing),
             plasticity ? "; 2 x patience + 1 measurements" : "");
    return true;
}
