/* Check a job's freezing before it begins: a policy that never freezes, or a key that the policy
 * does not read, is likely a mistake. */
#pragma once

#include <stdbool.h>

#include "elastic/job/job_spec.h"

#define JOB_FREEZING_WORDS_SIZE 256

/** job_freezing_hint() - describe why no layer can freeze before the job ends; false: a layer can,
 * or freezing is off (elastic/step/freeze.h) */
bool job_freezing_hint(const struct job_spec *spec, char ret_words[JOB_FREEZING_WORDS_SIZE]);

/** job_freezing_unused() - list the keys of elastic.freeze that differ from their defaults although
 * the policy does not read them; false: none */
bool job_freezing_unused(const struct job_spec *spec, char ret_words[JOB_FREEZING_WORDS_SIZE]);
