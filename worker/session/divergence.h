/*
 * Handling of a step whose loss or gradient norm is NaN or infinite (train.on_nan of a job).
 *
 * The decision follows from the step's complete record, which is the same at every worker and on
 * every layout, before any part of the step is applied: so no parameter ever becomes NaN or
 * infinite, and the run stays exact. With `stop` the job ends, but only after all units of the
 * state were compared (worker/state/state_digest.h): a wrong bit in one replica may look the same.
 * With `stop` the newest checkpoint may be that of the boundary from which no step can be computed:
 * its shares were durable before the step ended (protocol/checkpoint_vote.h), or workers left the
 * job at that boundary.
 */
#pragma once

#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "elastic/job/job_training.h"
#include "elastic/step/step_record.h"
#include "worker/session/alarms.h"

/**
 * divergence_check() - check that the step of @record may be applied
 *
 * Return: 0: it may; always with JOB_NAN_SKIP, and state_apply() skips it; -EDOM: the job must stop
 * here, with the reason in @error
 */
int divergence_check(const struct job_training *training, const struct step_record *record,
                     struct error *error) CHECK_RESULT;

#define DIVERGENCE_CALM_STEPS 100

/* The state of the operator's alarm about skipped steps. */
struct divergence {
    uint64_t last_step; /* last skipped step; 0: none */
};

/** divergence_alarm() - count the applied step of @record. Return: the text of ALARM_DIVERGENCE; ""
 * when none of the last DIVERGENCE_CALM_STEPS steps was skipped */
const char *divergence_alarm(struct divergence *divergence, const struct step_record *record);
