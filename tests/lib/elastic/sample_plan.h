/* A plan with every part in use: 2 stages x 3 replicas, a shadow, a donor, a commit, moves and a
 * history. */
#pragma once

#include "elastic/plan/plan.h"

#define SAMPLE_UNITS  6
#define SAMPLE_LANES  8
#define SAMPLE_STAGES 2

/** sample_plan() - make a plan in which every kind of field has a value; free it with plan_free()
 */
struct plan *sample_plan(void);
