/* Digests of the state of some units, which replicas must have alike (worker/state/state_digest.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "elastic/step/step_record.h"

struct unit_digests {
    bool known[STEP_RECORD_UNITS_MAX];
    uint64_t values[STEP_RECORD_UNITS_MAX]; /* of parameters and moments */
};
