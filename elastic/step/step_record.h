/*
 * What the world agrees on for one step: the square sums of every unit's gradient and the losses.
 * It travels up and down the exchange that commits a step, in reports after a failure, and in the
 * plan that lets a step stand. Values are exact (bits), so metrics come out equal everywhere.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/error.h"

#define STEP_RECORD_UNITS_MAX 514 /* 2 * 256 layers + 2 */
#define STEP_RECORD_LANES_MAX 1024

/*
 * "Not known here" is one bit pattern, NAN's. A run that diverges computes NaN too, and must still
 * commit its steps: step_record_known() gives those another pattern, one for all of them, so that
 * they count as known and agree wherever they were made. Every computed value goes through it.
 */
double step_record_unknown(void);
double step_record_known(double computed);
bool step_record_is_known(double value);

struct step_record {
    uint64_t step; /* from 1; 0: empty */
    unsigned unit_count, lane_count;
    /* Square sum of each unit's reduced gradient; NaN: not known here. Frozen units: 0. */
    double unit_squares[STEP_RECORD_UNITS_MAX];
    /* Sum of the token losses of each lane; NaN: not known here. */
    double lane_losses[STEP_RECORD_LANES_MAX];
    bool evaluated; /* validation ran with the parameters this step starts from */
    double lane_validation_losses[STEP_RECORD_LANES_MAX];
};

/** step_record_init() - @step with every value unknown; counts within the maxima above */
void step_record_init(struct step_record *record, uint64_t step, unsigned unit_count,
                      unsigned lane_count);

/**
 * step_record_merge() - take what @from knows and @into does not
 *
 * An empty @from changes nothing; an empty @into becomes @from. `evaluated` is taken from either.
 * Return: 0; -EBADMSG when the two speak of different steps or shapes, or both know a value and
 * differ in a bit (@into is unchanged).
 */
int step_record_merge(struct step_record *into, const struct step_record *from) CHECK_RESULT;

/** step_record_disputed() - both know the square sum of some unit, of one step, and differ in it */
bool step_record_disputed(const struct step_record *a, const struct step_record *b);

/** step_record_complete() - not empty and nothing unknown */
bool step_record_complete(const struct step_record *record);

/**
 * step_record_loss(), step_record_validation_loss() - mean token loss: lane sums added in lane
 * order, over the @tokens that count (0: where none does, the mean is 0). A NaN comes out with one
 * bit pattern on every machine.
 */
double step_record_loss(const struct step_record *record, uint64_t tokens);
double step_record_validation_loss(const struct step_record *record, uint64_t tokens);

/** step_record_finite() - loss and gradient norm of a complete record are numbers: else its step
 * changes no parameter (train.on_nan of a job). Equal records, equal answers. */
bool step_record_finite(const struct step_record *record);

/** step_record_norm() - global gradient norm: unit squares added in unit order, then the root */
double step_record_norm(const struct step_record *record);

/** step_record_pack() - append the little-endian bytes that links carry; 0 or -ENOMEM */
int step_record_pack(const struct step_record *record, struct bytes *ret_bytes) CHECK_RESULT;
/** step_record_unpack() - from exactly @size_bytes; -EBADMSG on anything pack() does not write */
int step_record_unpack(const uint8_t *data, size_t size_bytes,
                       struct step_record *ret_record) CHECK_RESULT;

/** step_record_encode() - JSON with values as bits; new reference, NULL when memory is short */
json_t *step_record_encode(const struct step_record *record);
/** step_record_decode() - -EINVAL names the key */
int step_record_decode(const json_t *tree, struct step_record *ret_record,
                       struct error *error) CHECK_RESULT;
