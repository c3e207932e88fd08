/* Digests of the state of some units, which replicas must have alike (worker/state/state_digest.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/words.h"
#include "elastic/step/step_record.h"

struct unit_digests {
    bool known[STEP_RECORD_UNITS_MAX];
    uint64_t values[STEP_RECORD_UNITS_MAX]; /* of parameters and moments */
};

/** unit_digests_merge() - add the digests of other ranks; a unit that both know takes the value of
 * @part.
 * Return: whether two values of a unit differ */
bool unit_digests_merge(struct unit_digests *sum, const struct unit_digests *part);

/** unit_digests_put() - append digests to a message */
void unit_digests_put(struct words_writer *writer, const struct unit_digests *digests);
/** unit_digests_take() - read digests; sets the reader's status */
void unit_digests_take(struct words_reader *reader, struct unit_digests *ret_digests);
