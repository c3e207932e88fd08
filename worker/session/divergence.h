/*
 * What becomes of a step whose loss or gradient norm is NaN or infinite (train.on_nan of a job).
 *
 * It is decided from the step's complete record, which is the same at every worker and on every
 * layout, and before anything of it is applied: so no parameter ever takes in what is no number,
 * and the run is as exact as any. With `stop` it ends, but not before all units of the state were
 * compared (worker/state/state_digest.h): a wrong bit in one replica may look the same. A
 * checkpoint is committed with a later step's commit, so with `stop` none is left of the boundary
 * from which no step could be computed, unless workers left the job just there.
 */
#pragma once

#include "elastic/job/job_spec.h"
#include "elastic/step/step_record.h"
#include "worker/session/alarms.h"

/**
 * divergence_check() - may the step of @record stand?
 *
 * Return: 0: it may; with JOB_NAN_SKIP always, and state_apply() leaves it out; -EDOM: the job must
 * stop here, @error says why.
 */
int divergence_check(const struct job_spec *spec, const struct step_record *record,
                     struct error *error) CHECK_RESULT;

#define DIVERGENCE_CALM_STEPS 100

/* What an operator is told of steps that are left out. */
struct divergence {
    uint64_t last_step; /* that was left out; 0: none */
};

/** divergence_alarm() - account for the applied step of @record. Return: the text of
 * ALARM_DIVERGENCE; "" when none of the last DIVERGENCE_CALM_STEPS steps was left out */
const char *divergence_alarm(struct divergence *divergence, const struct step_record *record);
